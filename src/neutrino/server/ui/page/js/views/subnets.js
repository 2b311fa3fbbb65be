/** Subnets with their address usage as bars. */

import { h, patch } from '../core/dom.js';
import { clean, count, nameOf } from '../core/format.js';
import { compareText } from '../core/order.js';
import { data, empty, link, notice } from './parts.js';
import { usageBar } from './usage_bar.js';

const SORTS = {
  usage: ['Fullest first', (a, b) => b.ratio - a.ratio || (a.id < b.id ? -1 : 1)],
  name: ['By name', (a, b) => compare(a, b)],
  network: ['By network', (a, b) => compareText(nameOf(a.network ?? {}), nameOf(b.network ?? {})) || compare(a, b)],
};
const SHOWN = 120;

function compare(a, b) {
  return compareText(title(a), title(b)) || (a.id < b.id ? -1 : 1);
}

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
    this.list = h('div', { class: 'subnets' });
    this.element = h(
      'div', { class: 'page' },
      h(
        'header', { class: 'page-head' }, h('h1', {}, 'Subnets'),
        this.summary,
        h('span', { class: 'grow' }),
        this.filter,
        this.sort,
      ),
      this.notes,
      this.list,
    );
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
    const rows = this.rows.filter((each) => !wanted || [
      title(each), each.subnet.cidr, nameOf(each.network ?? {}),
    ].some((text) => text.toLowerCase().includes(wanted)));
    rows.sort(SORTS[this.sort.value][1]);
    this.summary.textContent = this.loaded ? `${count(rows.length, 'subnet')}${wanted ? ` of ${this.rows.length}` : ''}` : '';
    if (!rows.length) {
      patch(
        this.list,
        this.loaded ? empty(
          wanted ? 'Nothing matches' : 'No subnets yet',
          wanted ? 'No subnet has this name, address range or network.' : 'Subnets appear here with their address usage.',
        ) : empty('Loading…', ''),
      );
      return;
    }
    patch(this.list, h('ul', { class: 'usage-list', 'aria-label': 'Subnets' }, rows.slice(0, SHOWN).map((each) => h('li', { 'data-key': each.id },
      h('div', { class: 'usage-name' }, h(
        'a', { href: `#/subnets?select=subnet:${each.id}`, class: 'object-link strong' }, data(title(each)),
      ),
        clean(each.subnet.name) ? h('span', { class: 'mono muted' }, each.subnet.cidr) : null),
      each.network ? link('network', each.network.id, nameOf(each.network)) : h('span', {}),
      usageBar(each, true)))),
    rows.length > SHOWN ? h('p', { class: 'muted' }, `The first ${SHOWN} are shown: filter to see others.`) : null);
  }
}
