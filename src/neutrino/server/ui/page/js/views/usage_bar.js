/** Address usage as a bar with numbers. */

import { h } from '../core/dom.js';
import { compact, group } from '../core/format.js';
import { level } from '../data/usage.js';

/** @param {import('../data/usage.js').Usage} usage */
export function usageBar({ used, total, ratio, source }, wide = false) {
  const name = level(ratio);
  const percent = ratio > 0 && ratio < 0.01 ? '<1' : String(Math.round(ratio * 100));
  const words = `${source === 'partial' ? 'at least ' : ''}${group(used)} of ${compact(total)} used`;
  const fill = h('span', { class: 'fill' });
  fill.style.width = `${Math.max(ratio > 0 ? 1.5 : 0, ratio * 100)}%`;
  return h('div', { class: `usage usage-${name.replace(' ', '-')}${wide ? ' wide' : ''}` },
    h(
      'span',
      { class: 'bar', role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': Math.round(ratio * 100), 'aria-label': `${words}, ${percent} percent${name === 'ok' ? '' : `, ${name}`}` },
      fill,
    ),
    h('span', { class: 'numbers' }, words, h('b', {}, `${percent} %`), name === 'ok' ? null : h('em', {}, name)));
}
