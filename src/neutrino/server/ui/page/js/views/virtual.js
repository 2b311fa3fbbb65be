/** Long lists and tables with elements for the rows in view only: 10,000 rows cost as much as a hundred. */

import { h, patch } from '../core/dom.js';
import { icon } from '../core/icons.js';

const AHEAD = 12; // rows beyond the window, so that scrolling does not show blanks

/** Draws the rows in view between two spacers, which have the height of the others. */
export class Virtual {
  /**
   * @param {any} scroller the element that scrolls
   * @param {any} body where rows are
   * @param {number} height of a row, in pixels
   * @param {(key: string, height: number) => any} spacer
   */
  constructor(scroller, body, height, spacer) {
    this.scroller = scroller;
    this.body = body;
    this.height = height;
    this.spacer = spacer;
    this.count = 0;
    /** @type {(at: number) => any} */
    this.row = () => null;
    this.from = -1;
    this.to = -1;
    scroller.addEventListener('scroll', () => this.draw(false), { passive: true });
    new ResizeObserver(() => this.draw(false)).observe(scroller);
  }

  /** @param {number} count @param {(at: number) => any} row draws a row; it has a `data-key` */
  set(count, row) {
    this.count = count;
    this.row = row;
    this.draw(true);
  }

  /** @param {boolean} again also if the same rows are in view */
  draw(again) {
    const { scroller, height, count } = this;
    const top = Math.max(0, scroller.scrollTop - this.body.offsetTop);
    const from = Math.max(0, Math.min(count, Math.floor(top / height)) - AHEAD);
    const to = Math.min(count, Math.ceil((top + (scroller.clientHeight || 600)) / height) + AHEAD);
    if (!again && from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    const rows = [];
    for (let at = from; at < to; at += 1) rows.push(this.row(at));
    patch(this.body, from ? this.spacer('above', from * height) : null, rows, to < count ? this.spacer('below', (count - to) * height) : null);
  }
}

const LINE = 33;
const FEW = 60; // shorter lists are drawn wholly

/**
 * A list; a long one scrolls by itself. It takes the items of the list that replaces it when its view is drawn again (`patch`).
 *
 * @template T
 * @param {string} label
 * @param {T[]} items
 * @param {(item: T) => any} line
 * @param {(item: T) => string} keyOf
 */
export function longList(label, items, line, keyOf) {
  const entry = (/** @type {number} */ at) => h('li', {
    'data-key': keyOf(items[at]), 'aria-setsize': items.length, 'aria-posinset': at + 1,
  }, line(items[at]));
  if (items.length <= FEW) return h('ul', { class: 'links', 'aria-label': label }, items.map((_, at) => entry(at)));
  const body = h('ul', { class: 'links', 'aria-label': label });
  const element = h('div', { class: 'long-list', 'data-own': '', 'data-key': `long ${label}`, tabindex: 0, role: 'region', 'aria-label': label }, body);
  const virtual = new Virtual(element, body, LINE, (key, height) => spaced(h('li', { class: 'spacer', 'data-key': key, 'aria-hidden': 'true' }), height));
  element.model = () => [items.length, entry];
  element.adopt = (/** @type {any} */ other) => virtual.set(.../** @type {[number, any]} */ (other.model()));
  virtual.set(items.length, entry);
  return element;
}

/** @param {any} element @param {number} height */
export function spaced(element, height) {
  element.style.height = `${height}px`;
  return element;
}

/**
 * @template T
 * @typedef {{key: string, title: string, text: (row: T) => string, cell?: (row: T) => any, end?: boolean}} Column text: for order and
 *   search; cell: what is shown, if it is more than the text
 */

const ROW = 37;

/** A table whose head sorts. */
export class VirtualTable {
  /**
   * @param {string} label
   * @param {Column<any>[]} columns
   * @param {(key: string) => void} onSort
   */
  constructor(label, columns, onSort) {
    this.columns = columns;
    this.onSort = onSort;
    this.head = h('tr', { 'aria-rowindex': 1 });
    this.body = h('tbody', {});
    this.table = h('table', { class: 'grid fixed', 'aria-label': label }, h('thead', {}, this.head), this.body);
    this.element = h('div', { class: 'table-frame virtual', tabindex: 0, role: 'region', 'aria-label': label }, this.table);
    this.virtual = new Virtual(this.element, this.body, ROW, (key, height) =>
      h('tr', { class: 'spacer', 'data-key': key, 'aria-hidden': 'true' }, spaced(h('td', { colspan: columns.length }), height)));
  }

  /** @param {any[]} rows @param {{sort: string, down: boolean, selected: string}} options */
  set(rows, { sort, down, selected }) {
    patch(this.head, this.columns.map(({ key, title, end }) => h('th', {
      scope: 'col', class: end ? 'end' : null, 'aria-sort': key === sort ? (down ? 'descending' : 'ascending') : 'none',
    }, h('button', { type: 'button', class: 'sort', on: { click: () => this.onSort(key) } }, title,
      key === sort ? icon(down ? 'expand' : 'collapse') : null))));
    this.table.setAttribute('aria-rowcount', String(rows.length + 1));
    this.virtual.set(rows.length, (at) => {
      const row = rows[at];
      return h('tr', { 'data-key': row.id, 'aria-rowindex': at + 2, class: row.id === selected ? 'on' : null },
        this.columns.map(({ text, cell, end }) => h('td', { class: end ? 'end' : null }, cell ? cell(row) : text(row))));
    });
  }

  /** Another list: from its start. */
  top() {
    this.element.scrollTop = 0;
  }
}
