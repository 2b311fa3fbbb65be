/** Rates of the last minutes as a small drawing, with the last ones in words. */

import { h, s } from '../core/dom.js';
import { count, group } from '../core/format.js';
import { pointsOf, rateText } from '../data/rates.js';
import { state } from './parts.js';

const SIZE = { width: 120, height: 26 };

/** @param {import('../data/rates.js').Sample[]} samples oldest first */
export function sparkline(samples) {
  const last = samples.at(-1);
  if (!last) return h('span', { class: 'muted' }, 'no rates reported');
  const most = samples.reduce((found, each) => Math.max(found, each.bitsIn, each.bitsOut), 0);
  const drops = samples.reduce((sum, each) => sum + each.drops, 0);
  const words = `${rateText(last.bitsIn)} in, ${rateText(last.bitsOut)} out`;
  const line = (/** @type {'bitsIn' | 'bitsOut'} */ name) => s('polyline', { class: name, points: pointsOf(samples.map((each) => each[name]), { ...SIZE, most }) });
  return h('div', { class: 'rates' },
    s('svg', { class: 'sparkline', viewBox: `-1 -1 ${SIZE.width + 2} ${SIZE.height + 2}`, role: 'img', 'aria-label': `Rates of the last minutes: now ${words}, at most ${rateText(most)}` },
      line('bitsIn'), line('bitsOut')),
    h('span', { class: 'mono' }, `↓ ${rateText(last.bitsIn)} ↑ ${rateText(last.bitsOut)}`),
    drops ? state('warn', `${group(drops)} dropped`) : h('span', { class: 'muted' }, `no drops in ${count(samples.length, 'interval')}`));
}
