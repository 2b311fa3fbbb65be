/** The side panel: an object with its attributes, links to what belongs to it, and its changes. */

import { h, patch, put } from '../core/dom.js';
import { ago, clean, nameOf, parseTime, shown } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { ApiError } from '../data/api.js';
import { commandsFor } from '../data/commands.js';
import { KINDS, TITLES, isListed } from '../data/kinds.js';
import { portLabel } from '../data/topology.js';
import { describe } from './describe.js';
import { copyable, data, empty, notice, section } from './parts.js';

const CHANGES = 12;
const RATES = 30000; // milliseconds, as hosts report them

/** @typedef {{reload: () => void, element: any}} Part a section that is fetched */

export class Details {
  /**
   * @param {{api: import('../data/api.js').Api, derived: import('../data/derived.js').Derived, onClose: () => void,
   *   onUpdate: () => void}} options
   */
  constructor({ api, derived, onClose, onUpdate }) {
    this.api = api;
    this.derived = derived;
    this.onUpdate = onUpdate;
    this.main = h('div', {});
    this.more = h('div', {});
    this.commands = h('div', {});
    this.body = h('div', { class: 'panel-body', tabindex: 0, role: 'region', 'aria-label': 'Attributes' }, this.main, this.more, this.commands);
    this.title = h('h2', { tabindex: -1 });
    this.kind = h('p', { class: 'panel-kind' });
    this.element = h('aside', { class: 'panel', 'aria-label': 'Details' },
      h('header', { class: 'panel-head' }, h('div', { class: 'grow' }, this.kind, this.title),
        h('button', { type: 'button', class: 'tool', title: 'Close', 'aria-label': 'Close details', on: { click: onClose } }, icon('close'))),
      this.body);
    this.element.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => event.key === 'Escape' && onClose());
    this.shown = '';
    this.revision = '';
    /** The whole object, with attributes that lists do not have. @type {any} */
    this.full = null;
    /** What was read for this object alone. @type {any} */
    this.related = null;
    /** @type {Part[]} */
    this.parts = [];
    setInterval(() => this.poll(), RATES);
  }

  /** Nothing is shown. */
  clear() {
    this.shown = '';
  }

  /**
   * Shows an object, or updates what is shown of it: what is fetched on demand stays open.
   *
   * @param {string} kind
   * @param {string} id
   */
  show(kind, id) {
    const { derived } = this;
    const key = `${kind}:${id}`;
    const object = kind === 'host' ? derived.hosts.find((host) => host.name === id) : derived.store.get(kind, id);
    if (key !== this.shown) this.open(key, kind, id);
    patch(this.kind, icon(kind), TITLES[kind] ?? 'Object');
    this.more.hidden = !object;
    this.commands.hidden = !object;
    if (!object) {
      const { loaded } = derived.store;
      patch(this.title, loaded ? 'Not found' : 'Loading…');
      patch(this.main, loaded ? empty('', `This ${(TITLES[kind] ?? 'object').toLowerCase()} does not exist, or you may not see it.`) : null);
      return;
    }
    this.refresh(kind, id, object);
    patch(this.title, data(titleOf(kind, object)));
    patch(this.main, describe(kind, { ...this.full, ...object }, derived, this.related));
    patch(this.commands, isListed(kind) ? h('p', {}, h('a', { class: 'object-link', href: formatPlace({ view: 'timeline', params: { object: id } }) }, icon('change'), 'History')) : null,
      h('details', { class: 'fold' }, h('summary', {}, 'Commands'),
      h('ul', { class: 'commands' }, commandsFor(kind, object).map((command) => h('li', { 'data-key': command }, copyable(command))))));
  }

  /** @param {string} key @param {string} kind @param {string} id */
  open(key, kind, id) {
    this.shown = key;
    this.revision = '';
    this.full = null;
    this.related = null;
    this.parts = isListed(kind) ? this.onDemand(kind, id) : [];
    put(this.main);
    put(this.more, this.parts.map((part) => part.element));
    this.body.scrollTop = 0;
  }

  /** Reads what lists do not have, and what is open, again if the object has changed. @param {string} kind @param {string} id @param {any} object */
  refresh(kind, id, object) {
    const revision = kind === 'host' ? `${object.agents.length} ${object.health} ${object.ports.length}` : `${object.revision_number} ${object.status}`;
    if (revision === this.revision) return;
    this.revision = revision;
    for (const part of this.parts) part.reload();
    this.read(kind, id);
  }

  /** @param {string} kind @param {string} id */
  async read(kind, id) {
    const at = this.shown;
    try {
      this.readRelated(kind, id);
      this.readRates(kind, id);
      if (!isListed(kind)) return;
      const [object] = Object.values(await this.api.get(`v2.0/${KINDS[kind].collection}/${encodeURIComponent(id)}`));
      if (at !== this.shown) return;
      this.full = object;
      this.onUpdate();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // lists have what matters most
    }
  }

  /** @param {string} kind @param {string} id */
  async readRelated(kind, id) {
    const at = this.shown;
    const reading = /** @type {Object<string, () => Promise<any>>} */ ({
      security_group: async () => {
        const ports = await this.api.list('port', { fields: ['id'], filters: [['security_groups', id]] });
        return { ports: ports.map((port) => this.derived.store.get('port', port.id)).filter(Boolean) };
      },
      router: async () => {
        const { router_placement: { instances } } = await this.api.get(`v2.0/router-placements/${encodeURIComponent(id)}`);
        return instances ? { instances } : null;
      },
      host: async () => ({
        ...(await this.api.get(`v2.0/hosts/${encodeURIComponent(id)}`)),
        routers: (await this.api.get('v2.0/router-placements', [['hosts', id], ['limit', '1000']])).router_placements,
      }),
    })[kind];
    if (!reading) return;
    try {
      const related = await reading();
      if (at !== this.shown) return;
      this.related = { ...this.related, ...related };
      this.onUpdate();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // not visible to members
    }
  }

  /** Rates of a port or router, or of the tunnels of a host. @param {string} kind @param {string} id */
  async readRates(kind, id) {
    const name = /** @type {Object<string, string>} */ ({ port: 'port_id', router: 'router_id', host: 'host' })[kind];
    const at = this.shown;
    if (!name) return;
    try {
      const answer = await this.api.get('v2.0/rates', [[name, id]]);
      if (at !== this.shown) return;
      this.related = { ...this.related, rates: answer };
      this.onUpdate();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // of an older server, or not visible
    }
  }

  /** Rates are reported all the time, so that no change tells of them. */
  poll() {
    const at = this.shown.indexOf(':');
    if (at > 0 && !this.element.hidden && document.visibilityState === 'visible') this.readRates(this.shown.slice(0, at), this.shown.slice(at + 1));
  }

  focus() {
    this.title.focus();
  }

  /**
   * Changes, all attributes, and the rules of a security group.
   *
   * @param {string} kind
   * @param {string} id
   * @returns {Part[]}
   */
  onDemand(kind, id) {
    const parts = [
      this.folded('Changes', () => this.loadChanges(id)),
      this.folded('All attributes', () => this.loadAttributes(kind, id)),
    ];
    return kind === 'security_group' ? [this.rules(id), ...parts] : parts;
  }

  /** @param {string} title @param {() => Promise<any>} load @returns {Part} */
  folded(title, load) {
    const content = h('div', {});
    const element = h('details', { class: 'fold' }, h('summary', {}, title), content);
    const reload = async () => {
      if (!element.open) return;
      if (!content.firstChild) put(content, h('p', { class: 'muted' }, 'Loading…'));
      patch(content, await attempt(load));
    };
    element.addEventListener('toggle', reload);
    return { element, reload };
  }

  /** @param {string} id */
  async loadChanges(id) {
    const answer = await this.api.get('v2.0/changes', [['object_id', id], ['limit', '1000']]);
    const rows = (answer.changes ?? []).slice(-CHANGES).reverse();
    if (!rows.length) return h('p', { class: 'muted' }, 'No changes are kept any more.');
    return h('ul', { class: 'changes' }, rows.map((/** @type {any} */ row) => {
      const at = parseTime(typeof row.at === 'number' ? new Date(row.at * 1000).toISOString() : row.at);
      return h('li', {}, h('strong', {}, clean(row.action)), ` ${at ? ago(Date.now() - at) : ''}`,
        row.request_id ? h('code', {}, clean(row.request_id)) : null);
    }));
  }

  /** @param {string} kind @param {string} id */
  async loadAttributes(kind, id) {
    const answer = await this.api.get(`v2.0/${KINDS[kind].collection}/${encodeURIComponent(id)}`);
    const [object] = /** @type {any[]} */ (Object.values(answer));
    return h('table', { class: 'attributes' }, h('tbody', {}, Object.keys(object).sort().map((name) =>
      h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, data(shown(object[name])))))));
  }

  /** @param {string} id @returns {Part} */
  rules(id) {
    const content = h('div', {}, h('p', { class: 'muted' }, 'Loading…'));
    const reload = async () => patch(content, await attempt(async () => {
      const { security_group: group } = await this.api.get(`v2.0/security-groups/${encodeURIComponent(id)}`);
      const rules = [...(group.security_group_rules ?? [])].sort((a, b) => (a.direction < b.direction ? 1 : -1));
      if (!rules.length) return h('p', { class: 'muted' }, 'No rules: no traffic is allowed.');
      return h('ul', { class: 'rules' }, rules.map((rule) => h('li', {}, ruleText(rule))));
    }));
    return { element: section('Rules', content), reload };
  }
}

/** @param {string} kind @param {any} object */
function titleOf(kind, object) {
  if (kind === 'host') return object.name;
  if (kind === 'agent') return `${object.agent_type} on ${object.host}`;
  return kind === 'port' ? portLabel(object) : nameOf(object);
}

/** A rule in words. @param {any} rule */
export function ruleText(rule) {
  const low = rule.port_range_min;
  const high = rule.port_range_max;
  const ports = low === null || low === undefined ? '' : low === high || high === null ? ` ${low}` : ` ${low}–${high}`;
  const peer = rule.remote_ip_prefix || (rule.remote_group_id && `members of ${rule.remote_group_id.slice(0, 8)}`)
    || (rule.remote_address_group_id && `address group ${rule.remote_address_group_id.slice(0, 8)}`) || 'anywhere';
  const way = rule.direction === 'ingress' ? 'In from' : 'Out to';
  return `${way} ${peer}: ${rule.ethertype}, ${rule.protocol ? `${rule.protocol}${ports}` : 'any protocol'}`;
}

/** @param {() => Promise<any>} load */
async function attempt(load) {
  try {
    return await load();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = error.status === 404 || error.status === 403 ? 'Not available on this server, or not visible to you.' : error.message;
    return notice('info', text);
  }
}
