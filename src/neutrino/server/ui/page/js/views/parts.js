/** Small parts that several views use. */

import { h } from '../core/dom.js';
import { clean, shortId } from '../core/format.js';
import { linkTo } from '../core/hash.js';
import { icon } from '../core/icons.js';

/** A text of the API: isolated, so that its direction does not affect what is around it. */
export function data(text) {
  return h('bdi', {}, clean(text));
}

export function link(kind, id, text) {
  return h('a', { href: linkTo(kind, id), class: 'object-link' }, icon(kind), data(text || shortId(id)));
}

const WORDS = { ok: 'OK', warn: 'Warning', bad: 'Failed', off: 'Off', unknown: 'Unknown' };

/** A state as icon and word. */
export function state(name, word = WORDS[name]) {
  return h('span', { class: `state state-${name}` }, icon(name), h('span', {}, word));
}

/** An icon with a title instead of a word. */
export function mark(name, title) {
  return h('span', { class: `state state-${name}`, title }, icon(name, title));
}

export function empty(title, text, ...more) {
  return h('div', { class: 'empty' }, h('h2', {}, title), text ? h('p', {}, text) : null, ...more);
}

export function notice(kind, ...content) {
  return h('p', { class: `notice notice-${kind}` }, icon(kind), h('span', {}, ...content));
}

export function copyable(text) {
  const button = h('button', { type: 'button', class: 'copy', title: 'Copy', 'aria-label': `Copy ${text}` }, icon('copy'));
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.classList.add('done');
      setTimeout(() => button.classList.remove('done'), 1200);
    } catch {
      // Pages without TLS have no clipboard: the text can be selected.
    }
  });
  return h('span', { class: 'copyable' }, h('code', {}, clean(text)), button);
}

/** Terms and values; rows without a value are left out. */
export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter(Boolean).map(([term, value]) =>
    value === null || value === undefined || value === '' ? null : [h('dt', {}, term), h('dd', {}, value)]));
}

export function section(title, ...content) {
  return h('section', { class: 'panel-section' }, h('h3', {}, title), ...content);
}
