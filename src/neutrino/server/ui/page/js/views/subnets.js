/** Subnets with their address usage as bars. */

import { h, patch } from '../core/dom.js';
import { clean, count, nameOf } from '../core/format.js';
import { sortedBy } from '../core/order.js';
import { data, empty, link, notice } from './parts.js';
import { usageBar } from './usage_bar.js';
import { Virtual, spaced } from './virtual.js';

/** @typedef {import('../data/usage.js').Usage} Usage */

/** @type {Object<string, [string, (rows: Usage[]) => Usage[]]>} */
const SORTS = {
  usage: ['Fullest first', (rows) => rows.sort((a, b) => b.ratio - a.ratio || (a.id < b.id ? -1 : 1))],
  name: ['By name', (rows) => sortedBy(rows, title, (each) => each.id)],
  network: ['By network', (rows) => sortedBy(rows, (each) => `${networkOf(each)}  ${title(each)}`, (each) => each.id)],
};
const WIDE = 59; // pixels of a row
const NARROW = 125; // below each other, as on a phone

/** @param {Usage} usage */
function networkOf({ network }) {
  return nameOf(network ?? {});
}

/** @param {Usage} usage */
function title({ subnet }) {
  return clean(subnet.name) || subnet.cidr;
}

export class SubnetsView {
  constructor() {
    this.sort = h(
      'select', { 'aria-label': 'Order', on: { change: () => this.draw() } },
      Object.entries(SORTS).map(([name, [text]]) => h('option', { value: name }, text)),
    );
    this.filter = h(
      'input',
      { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter subnets', name: 'filter', on: { input: () => this.draw() } },
    );
    this.summary = h('p', { class: 'muted', role: 'status' });
    this.notes = h('div', {});
    this.blank = h('div', {});
    this.list = h('ul', { class: 'usage-list', 'aria-label': 'Subnets' });
    this.frame = h('div', { class: 'table-frame virtual', tabindex: 0, role: 'region', 'aria-label': 'Subnets' }, this.list);
    this.virtual = new Virtual(this.frame, this.list, WIDE, (key, height) =>
      spaced(h('li', { class: 'spacer', 'data-key': key, 'aria-hidden': 'true' }), height));
    const narrow = matchMedia('(max-width: 860px)');
    const resize = () => { this.virtual.height = narrow.matches ? NARROW : WIDE; };
    resize();
    narrow.addEventListener('change', () => { resize(); this.draw(); });
    this.loaded = false;
    this.element = h(
      'div', { class: 'page table-page' },
      h(
        'header', { class: 'page-head' }, h('h1', {}, 'Subnets'),
        this.summary,
        h('span', { class: 'grow' }),
        this.filter,
        this.sort,
      ),
      this.notes,
      this.blank,
      this.frame,
    );
    /** @type {Usage[]} */
    this.rows = [];
  }

  /** @param {import('../data/usage.js').Usage[]} usage */
  update(usage, { project, loaded, availabilityHidden }) {
    this.rows = usage.filter((each) => !project || each.subnet.project_id === project);
    this.loaded = loaded;
    patch(this.notes, availabilityHidden && this.rows.some((each) => each.source === 'partial')
      ? notice('info', 'Usage is counted from the ports that you see. On networks of other projects others may use more addresses.') : null);
    this.draw();
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.rows.filter((each) => !wanted || [
      title(each), each.subnet.cidr, networkOf(each),
    ].some((text) => text.toLowerCase().includes(wanted)));
    const rows = SORTS[this.sort.value][1](found);
    this.summary.textContent = this.loaded ? `${count(rows.length, 'subnet')}${wanted ? ` of ${this.rows.length}` : ''}` : '';
    this.frame.hidden = !rows.length;
    patch(this.blank, rows.length ? null : !this.loaded ? empty('Loading…', '') : empty(
      wanted ? 'Nothing matches' : 'No subnets yet',
      wanted ? 'No subnet has this name, address range or network.' : 'Subnets appear here with their address usage.',
    ));
    this.virtual.set(rows.length, (at) => this.row(rows[at], at, rows.length));
  }

  /** @param {Usage} usage @param {number} at @param {number} number */
  row(usage, at, number) {
    const { id, subnet, network } = usage;
    return h('li', { 'data-key': id, 'aria-setsize': number, 'aria-posinset': at + 1 },
      h('div', { class: 'usage-name' }, h('a', { href: `#/subnets?select=subnet:${id}`, class: 'object-link strong' }, data(title(usage))),
        clean(subnet.name) ? h('span', { class: 'mono muted' }, subnet.cidr) : null),
      network ? link('network', network.id, nameOf(network)) : h('span', {}),
      usageBar(usage, true));
  }
}
