/** Small parts that several views use. */

import { announce } from '../core/announce.js';
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

/** A text with a button that copies it. @param {string} text @param {string} [tag] */
export function copyable(text, tag = 'code') {
  return h('span', { class: 'copyable' }, h(tag, {}, clean(text)),
    h('button', { type: 'button', class: 'copy', title: 'Copy', 'aria-label': `Copy ${clean(text)}`, on: { click: (/** @type {any} */ event) => copy(text, event.currentTarget) } },
      icon('copy')));
}

/** @param {string} text @param {any} button */
async function copy(text, button) {
  const done = (await toClipboard(text)) || copySelected(text);
  if (!done) getSelection()?.selectAllChildren(button.previousSibling);
  announce(done ? 'Copied.' : 'The browser does not allow it: press Ctrl+C to copy what is selected.');
  button.title = done ? 'Copied' : 'Not allowed by the browser: press Ctrl+C';
  button.classList.toggle('done', done);
  setTimeout(() => button.classList.remove('done'), 1200);
}

/** @param {string} text */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // pages without TLS have no clipboard
  }
}

/** The way without TLS. @param {string} text */
function copySelected(text) {
  const field = h('textarea', { readonly: true, class: 'visually-hidden', 'aria-hidden': 'true' });
  field.value = text;
  const focused = /** @type {any} */ (document.activeElement);
  document.body.append(field);
  field.select();
  try {
    return document.execCommand('copy');
  } catch {
    return false;
  } finally {
    field.remove();
    focused?.focus({ preventScroll: true });
  }
}

/** Terms and values; rows without a value are left out. */
export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter(Boolean).map(([term, value]) =>
    value === null || value === undefined || value === '' ? null : [h('dt', {}, term), h('dd', {}, value)]));
}

export function section(title, ...content) {
  return h('section', { class: 'panel-section' }, h('h3', {}, title), ...content);
}
