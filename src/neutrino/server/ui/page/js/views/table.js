/** Ports, networks, routers and hosts as tables; filter, order and search are in the address. */

import { h, patch } from '../core/dom.js';
import { count, group } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { TITLES } from '../data/kinds.js';
import { ROWS, STATES, choose } from '../data/rows.js';
import { data, empty, link, state } from './parts.js';
import { VirtualTable } from './virtual.js';

/** @typedef {import('../data/rows.js').Row} Row */
/** @typedef {import('./virtual.js').Column<Row>} Column */

/** @type {Column} */
const NAME = { key: 'name', title: 'Name', text: (row) => row.name };
/** @type {Column} */
const STATE = { key: 'state', title: 'State', text: (row) => `${'bad warn unknown off ok'.indexOf(row.state[0])} ${row.state[1]}`, cell: (row) => state(row.state[0], row.state[1]) };
/** @type {Column} */
const PROJECT = { key: 'project', title: 'Project', text: (row) => row.project };
const plain = (/** @type {string} */ key, /** @type {string} */ title) => ({ key, title, text: (/** @type {Row} */ row) => String(row.cells[key] ?? '') });
const number = (/** @type {string} */ key, /** @type {string} */ title) => ({ ...plain(key, title), end: true, cell: (/** @type {Row} */ row) => group(row.cells[key]) });
const to = (/** @type {string} */ key, /** @type {string} */ title, /** @type {string} */ kind, /** @type {(row: Row) => string} */ idOf) =>
  ({ ...plain(key, title), cell: (/** @type {Row} */ row) => (row.cells[key] ? link(kind, idOf(row), row.cells[key]) : '') });

/** @type {Object<string, Column[]>} */
const COLUMNS = {
  port: [NAME, STATE, plain('addresses', 'Addresses'), to('network', 'Network', 'network', (row) => row.cells.networkId),
    to('host', 'Host', 'host', (row) => row.cells.host), plain('owner', 'Owner'), PROJECT, plain('mac', 'MAC address')],
  network: [NAME, STATE, plain('subnets', 'Subnets'), number('ports', 'Ports'), plain('type', 'Type'), plain('use', 'Use'), PROJECT],
  router: [NAME, STATE, plain('gateway', 'Gateway'), number('networks', 'Networks'), plain('kind', 'Kind'), plain('hosts', 'Active on'),
    plain('standby', 'Standby on'), PROJECT],
  host: [NAME, STATE, number('agents', 'Agents'), number('late', 'Late'), number('ports', 'Ports'), number('behind', 'Behind'),
    plain('tunnel', 'Tunnel address'), plain('zone', 'Zone')],
};
/** What rows are made from. @type {Object<string, string[]>} */
export const MADE_FROM = {
  port: ['port', 'network', 'router', 'status', 'agent'], network: ['network', 'subnet', 'port', 'router', 'floatingip', 'status', 'agent'],
  router: ['router', 'network', 'subnet', 'port', 'floatingip', 'status', 'agent', 'placements'], host: ['agent', 'port'],
};

export class TableView {
  /** @param {string} kind @param {{go: (params: Object<string, string>, replace?: boolean) => void}} options */
  constructor(kind, { go }) {
    this.kind = kind;
    /** @type {Object<string, string>} */
    this.params = {};
    // Details open beside the table.
    const name = (/** @type {Row} */ row) => h('a', {
      class: 'object-link', href: formatPlace({ view: `${kind}s`, params: { ...this.params, select: `${kind}:${row.id}` } }),
    }, icon(kind), data(row.name));
    this.columns = COLUMNS[kind].map((column) => (column === NAME ? { ...column, cell: name } : column));
    /** @type {{all: Row[], key: string, rows: Row[]}} */
    this.known = { all: [], key: '', rows: [] };
    this.shown = '';
    this.sort = 'name';
    this.down = false;
    const title = `${TITLES[kind]}s`;
    this.filter = h('input', {
      type: 'search', name: 'filter', placeholder: 'Filter', 'aria-label': `Filter ${title.toLowerCase()}`, on: { input: () => go({ q: this.filter.value }, true) },
    });
    this.states = h('select', { name: 'state', 'aria-label': 'State', on: { change: () => go({ state: this.states.value }) } },
      h('option', { value: '' }, 'All states'), Object.entries(STATES).map(([value, [text]]) => h('option', { value }, text)));
    this.summary = h('p', { class: 'muted', role: 'status' });
    this.table = new VirtualTable(title, this.columns, (key) => go({ sort: this.sort === key && !this.down ? `-${key}` : key }));
    this.blank = h('div', {});
    this.element = h('div', { class: 'page table-page' },
      h('header', { class: 'page-head' }, h('h1', {}, title), this.summary, h('span', { class: 'grow' }), this.filter, this.states),
      this.blank, this.table.element);
  }

  /** The rows in their order; a click on one of them chooses and sorts nothing again. @param {Row[]} all @param {import('../data/rows.js').Wanted} wanted @param {(row: Row) => string} textOf */
  chosen(all, wanted, textOf) {
    const key = JSON.stringify(wanted);
    if (this.known.all !== all || this.known.key !== key) this.known = { all, key, rows: choose(all, wanted, textOf) };
    return this.known.rows;
  }

  /** @param {import('../data/derived.js').Derived} derived @param {Object<string, string>} params @param {string} selected */
  update(derived, params, selected) {
    const { kind } = this;
    this.params = params;
    const { complete, progress } = derived.store;
    const needed = kind === 'host' ? 'agent' : kind;
    const wanted = params.sort ?? 'name';
    this.down = wanted.startsWith('-');
    const key = wanted.replace(/^-/, '');
    const column = this.columns.find((each) => each.key === key) ?? this.columns[0];
    this.sort = column.key;
    if (this.filter.value !== (params.q ?? '') && document.activeElement !== this.filter) this.filter.value = params.q ?? '';
    this.states.value = params.state ?? '';
    if (!complete.has(needed)) {
      this.summary.textContent = 'loading…';
      patch(this.blank, empty('Loading…', progress.has(needed) ? `${count(progress.get(needed) ?? 0, TITLES[kind].toLowerCase())} read` : ''));
      this.table.element.hidden = true;
      return;
    }
    const all = derived.memo(`rows ${kind}`, MADE_FROM[kind], () => ROWS[kind](derived));
    const chosen = { q: params.q ?? '', state: params.state ?? '', project: params.project ?? '', sort: this.sort, down: this.down };
    const rows = this.chosen(all, chosen, column.text);
    const what = count(rows.length, TITLES[kind].toLowerCase());
    this.summary.textContent = rows.length === all.length ? what : `${what} of ${group(all.length)}`;
    patch(this.blank, rows.length ? null : empty(all.length ? 'Nothing matches' : `No ${TITLES[kind].toLowerCase()}s yet`, ''));
    this.table.element.hidden = !rows.length;
    const shown = `${params.q} ${params.state} ${params.project} ${wanted}`;
    if (shown !== this.shown) this.table.top();
    this.shown = shown;
    this.table.set(rows, { sort: this.sort, down: this.down, selected });
  }
}
