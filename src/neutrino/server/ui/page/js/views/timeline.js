/** What changed of late, by whom, with the objects; or the history of one object. */

import { h, patch } from '../core/dom.js';
import { ago, clean, count, nameOf, parseTime, shortId, shown } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { ApiError } from '../data/api.js';
import { TITLES, isListed } from '../data/kinds.js';
import { data, empty, link, notice } from './parts.js';

const SPANS = { 900: 'Last 15 minutes', 3600: 'Last hour', 86400: 'Last day', 604800: 'Last week' };
const KINDS = ['port', 'network', 'subnet', 'router', 'floatingip', 'security_group'];
const ROWS = 200;
const EVERY = 10000; // milliseconds

export class TimelineView {
  /** @param {{api: import('../data/api.js').Api, derived: import('../data/derived.js').Derived, go: (params: Object<string, string>) => void}} options */
  constructor({ api, derived, go }) {
    this.api = api;
    this.derived = derived;
    /** @type {any[] | null} */
    this.rows = null;
    this.error = '';
    this.asked = '';
    this.at = 0;
    /** @type {Object<string, string>} */
    this.params = {};
    this.span = h('select', { 'aria-label': 'Time', name: 'since', on: { change: () => go({ since: this.span.value }) } },
      Object.entries(SPANS).map(([value, text]) => h('option', { value }, text)));
    this.kinds = h('select', { 'aria-label': 'Kind', name: 'kind', on: { change: () => go({ kind: this.kinds.value }) } },
      h('option', { value: '' }, 'All kinds'), KINDS.map((kind) => h('option', { value: kind }, TITLES[kind])));
    this.summary = h('p', { class: 'muted', role: 'status' });
    this.body = h('div', {});
    this.element = h('div', { class: 'page' },
      h('header', { class: 'page-head' }, h('h1', {}, 'Timeline'), this.summary, h('span', { class: 'grow' }), this.kinds, this.span), this.body);
  }

  /** @param {Object<string, string>} params */
  update(params) {
    this.params = params;
    const { object = '', kind = '', project = '' } = params;
    const since = Object.hasOwn(SPANS, params.since ?? '') ? params.since : object ? '604800' : '3600';
    this.span.value = since;
    this.kinds.value = kind;
    const asked = [since, kind, object, project].join(' ');
    if (asked !== this.asked) [this.rows, this.at] = [null, 0];
    this.asked = asked;
    this.draw();
    if (Date.now() - this.at < EVERY) return;
    this.at = Date.now();
    this.read(asked, [['since', since], ['limit', String(ROWS)], ['kind', kind], ['object_id', object], ['project_id', project]]);
  }

  /** @param {string} asked @param {[string, string][]} params */
  async read(asked, params) {
    try {
      const { changes } = await this.api.get('v2.0/changes', params.filter(([, value]) => value));
      if (asked !== this.asked) return;
      this.rows = changes;
      this.error = '';
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error.message;
    }
    this.draw();
  }

  draw() {
    const { rows, params } = this;
    this.summary.textContent = rows ? `${rows.length === ROWS ? 'the last ' : ''}${count(rows.length, 'change')}` : 'loading…';
    patch(this.body,
      this.error ? notice('bad', this.error) : null,
      params.object ? h('p', { class: 'notice' }, h('span', {}, 'The history of ', data(params.object), ' · '),
        h('a', { href: formatPlace({ view: 'timeline', params: {} }) }, 'all objects')) : null,
      !rows ? empty('Loading…', '') : !rows.length ? empty('Nothing changed', 'No change of this time is in the change log.')
        : h('ol', { class: 'timeline' }, rows.map((row) => this.entry(row))));
  }

  /** @param {any} row */
  entry(row) {
    const at = parseTime(typeof row.at === 'number' ? new Date(row.at * 1000).toISOString() : row.at);
    const object = isListed(row.kind) ? this.derived.store.get(row.kind, row.object_id) : null;
    const named = (row.changed ?? []).find((/** @type {any} */ each) => each.name === 'name');
    const name = object ? nameOf(object) : clean(named?.old || named?.new) || shortId(row.object_id);
    const user = row.user_id ? `by ${this.derived.userName(row.user_id)}` : '';
    const project = row.project_id ? this.derived.projectName(row.project_id) : '';
    return h('li', { 'data-key': `${row.position} ${row.object_id}`, class: `is-${row.action}` },
      h('time', { class: 'muted', datetime: at ? new Date(at).toISOString() : null, title: at ? new Date(at).toISOString() : null }, at ? ago(Date.now() - at) : ''),
      h('div', {}, h('p', { class: 'timeline-title' }, h('strong', {}, clean(row.action)), ` ${(TITLES[row.kind] ?? clean(row.kind)).toLowerCase()} `,
        object ? link(row.kind, row.object_id, name) : data(name), h('span', { class: 'muted' }, [project, user].filter(Boolean).join(' · ')),
        this.params.object ? null : h('a', { class: 'muted', href: formatPlace({ view: 'timeline', params: { object: row.object_id } }) }, 'history')),
      row.action === 'updated' && row.changed?.length ? h('ul', { class: 'plain mono' }, row.changed.map((/** @type {any} */ each) =>
        h('li', {}, `${clean(each.name)}: `, data(shown(each.old)), ' → ', data(shown(each.new))))) : null));
  }
}
