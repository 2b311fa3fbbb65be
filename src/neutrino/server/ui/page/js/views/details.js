/** The side panel: an object with its attributes, links to what belongs to it, and its changes. */

import { h, put } from '../core/dom.js';
import { clean, nameOf, parseTime, ago, shown } from '../core/format.js';
import { icon } from '../core/icons.js';
import { ApiError } from '../data/api.js';
import { KINDS, TITLES } from '../data/kinds.js';
import { portLabel } from '../data/topology.js';
import { describe } from './describe.js';
import { data, empty, notice, section } from './parts.js';

const CHANGES = 12;

export class Details {
  /** @param {{api: any, store: any, context: () => any, onClose: () => void}} options */
  constructor({ api, store, context, onClose }) {
    Object.assign(this, { api, store, context, onClose });
    this.body = h('div', { class: 'panel-body' });
    this.title = h('h2', { tabindex: -1 });
    this.kind = h('p', { class: 'panel-kind' });
    this.element = h('aside', { class: 'panel', 'aria-label': 'Details' },
      h('header', { class: 'panel-head' }, h('div', { class: 'grow' }, this.kind, this.title),
        h('button', { type: 'button', class: 'tool', title: 'Close', 'aria-label': 'Close details', on: { click: onClose } }, icon('close'))),
      this.body);
    this.element.addEventListener('keydown', (event) => event.key === 'Escape' && onClose());
    this.shown = '';
    this.more = null;
  }

  /** Shows an object. The sections that are fetched on demand stay while the same object is shown. */
  show(kind, id) {
    const key = `${kind}:${id}`;
    const object = kind === 'host' ? this.context().hosts.find((host) => host.name === id) : this.store.get(kind, id);
    put(this.kind, icon(kind), TITLES[kind] ?? kind);
    if (key !== this.shown) {
      this.shown = key;
      this.more = object && KINDS[kind] ? this.onDemand(kind, id) : null;
      this.body.scrollTop = 0;
    }
    if (!object) {
      put(this.title, this.store.loaded ? 'Not found' : 'Loading…');
      put(this.body, this.store.loaded
        ? empty('', `This ${(TITLES[kind] ?? kind).toLowerCase()} does not exist, or you may not see it.`) : null);
      return;
    }
    put(
      this.title,
      data(kind === 'host' ? object.name : kind === 'port' ? portLabel(object) : kind === 'agent' ? `${object.agent_type} on ${object.host}` : nameOf(object)),
    );
    put(this.body, describe(kind, object, this.context()), this.more);
  }

  focus() {
    this.title.focus();
  }

  /** Changes, all attributes, and the rules of a security group. */
  onDemand(kind, id) {
    const changes = h('div', {});
    const attributes = h('div', {});
    const parts = [
      this.folded('Changes', changes, () => this.loadChanges(id)),
      this.folded('All attributes', attributes, () => this.loadAttributes(kind, id)),
    ];
    if (kind === 'security_group') parts.unshift(this.rules(id));
    return h('div', {}, parts);
  }

  folded(title, content, load) {
    const fold = h('details', { class: 'fold' }, h('summary', {}, title), content);
    fold.addEventListener('toggle', async () => {
      if (!fold.open) return;
      put(content, h('p', { class: 'muted' }, 'Loading…'));
      put(content, await attempt(load));
    });
    return fold;
  }

  async loadChanges(id) {
    const answer = await this.api.get('v2.0/changes', [['object_id', id], ['limit', '1000']]);
    const rows = (answer.changes ?? []).slice(-CHANGES).reverse();
    if (!rows.length) return h('p', { class: 'muted' }, 'No changes are kept any more.');
    return h('ul', { class: 'changes' }, rows.map((row) => {
      const at = parseTime(typeof row.at === 'number' ? new Date(row.at * 1000).toISOString() : row.at);
      return h('li', {}, h('strong', {}, clean(row.action)), ` ${at ? ago(Date.now() - at) : ''}`,
        row.request_id ? h('code', {}, clean(row.request_id)) : null);
    }));
  }

  async loadAttributes(kind, id) {
    const answer = await this.api.get(`v2.0/${KINDS[kind].collection}/${encodeURIComponent(id)}`);
    const [object] = Object.values(answer);
    return h('table', { class: 'attributes' }, h('tbody', {}, Object.keys(object).sort().map((name) =>
      h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, data(shown(object[name])))))));
  }

  rules(id) {
    const content = h('div', {}, h('p', { class: 'muted' }, 'Loading…'));
    attempt(async () => {
      const { security_group: group } = await this.api.get(`v2.0/security-groups/${encodeURIComponent(id)}`);
      const rules = [...(group.security_group_rules ?? [])].sort((a, b) => (a.direction < b.direction ? 1 : -1));
      if (!rules.length) return h('p', { class: 'muted' }, 'No rules: no traffic is allowed.');
      return h('ul', { class: 'rules' }, rules.map((rule) => h('li', {}, ruleText(rule))));
    }).then((found) => put(content, found));
    return section('Rules', content);
  }
}

/** A rule in words. */
export function ruleText(rule) {
  const low = rule.port_range_min;
  const high = rule.port_range_max;
  const ports = low === null || low === undefined ? '' : low === high || high === null ? ` ${low}` : ` ${low}–${high}`;
  const peer = rule.remote_ip_prefix || (rule.remote_group_id && `members of ${rule.remote_group_id.slice(0, 8)}`)
    || (rule.remote_address_group_id && `address group ${rule.remote_address_group_id.slice(0, 8)}`) || 'anywhere';
  const way = rule.direction === 'ingress' ? 'In from' : 'Out to';
  return `${way} ${peer}: ${rule.ethertype}, ${rule.protocol ? `${rule.protocol}${ports}` : 'any protocol'}`;
}

async function attempt(load) {
  try {
    return await load();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text = error.status === 404 || error.status === 403 ? 'Not available on this server, or not visible to you.' : error.message;
    return notice('info', text);
  }
}
