/** Health: what fails or is late, with meaning and fix, and the state of servers, database and feed. */

import { h, patch } from '../core/dom.js';
import { ago, clean, count, group, parseTime } from '../core/format.js';
import { linkTo } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { sortedBy } from '../core/order.js';
import { agentHealth, isDown } from '../data/hosts.js';
import { TITLES, isListed } from '../data/kinds.js';
import { bindingOf, isVirtual } from '../data/states.js';
import { data, empty, mark, notice, state } from './parts.js';
import { VirtualTable, longList } from './virtual.js';

const LONG = 60; // more objects are a list that scrolls
const MANY = 5; // objects that are listed at once; more are folded
const WORDS = { bad: 'Failure', warn: 'Warning', note: 'Note' };

export class HealthView {
  constructor() {
    this.verdict = h('div', { role: 'status' });
    this.body = h('div', {});
    /** @type {any[]} */
    this.known = [];
    this.sort = 'host';
    this.down = false;
    this.table = new VirtualTable('Agents', AGENT_COLUMNS, (key) => {
      [this.sort, this.down] = [key, this.sort === key && !this.down];
      this.drawAgents();
    });
    this.agents = h('section', { 'data-key': 'agents' }, h('h2', {}, 'Agents'), this.table.element);
    this.element = h(
      'div', { class: 'page' }, h('header', { class: 'page-head' }, h('h1', {}, 'Health'), this.verdict),
      this.body,
    );
  }

  /**
   * @param {import('../data/derived.js').Derived} derived
   * @param {{statusHidden: string, agentsHidden: string, loaded: boolean}} options
   */
  update(derived, { statusHidden, agentsHidden, loaded }) {
    if (!loaded) {
      patch(this.body, empty('Loading…', ''));
      return;
    }
    const { agents, problems, status, totals: { bad, warn } } = derived;
    patch(
      this.verdict,
      bad ? state('bad', count(bad, 'failure')) : warn ? state('warn', count(warn, 'warning')) : state('ok', agentsHidden ? 'Nothing you can see is failing' : 'All is well'),
    );
    patch(this.body,
      agentsHidden ? notice(
        'info',
        `Agents, hosts and servers are ${agentsHidden}. This page shows the health of your own ports, routers and floating IPs.`,
      ) : null,
      h('div', { class: 'tiles', 'data-key': 'tiles' }, tiles(agents, derived.store.all('port'), status, agentsHidden)),
      h('section', { 'data-key': 'problems' }, h('h2', {}, 'Problems'), problems.length ? h('ul', { class: 'findings' }, problems.map(entry))
        : empty('No problems', agentsHidden ? 'Your ports, routers and floating IPs have no failure.' : 'All agents report in time, all dataplanes are up, and hosts have applied all changes.')),
      agents.length ? this.agents : null,
      status ? h('section', { 'data-key': 'servers' }, h('h2', {}, 'Servers'), serverTable(status)) : statusHidden || agentsHidden ? null : h('p', { class: 'muted' }, 'This server does not report the state of its processes.'));
    this.known = agents;
    this.drawAgents();
  }

  drawAgents() {
    const { text } = /** @type {import('./virtual.js').Column<any>} */ (AGENT_COLUMNS.find(({ key }) => key === this.sort));
    const rows = sortedBy(this.known, text, (agent) => agent.id);
    this.table.set(this.down ? rows.reverse() : rows, { sort: this.sort, down: this.down, selected: '' });
  }
}

/** @param {any[]} agents @param {any[]} ports @param {any} status @param {string} agentsHidden */
function tiles(agents, ports, status, agentsHidden) {
  const alive = agents.filter((agent) => agent.alive).length;
  const down = agents.filter((agent) => agent.alive && isDown(agent)).length;
  const behind = agents.reduce((most, agent) => (agent.alive ? Math.max(most, Number(agent.configurations?.feed_behind) || 0) : most), 0);
  return [
    agentsHidden ? null : !agents.length ? tile('Agents', 'none', 'unknown', 'no host has reported yet')
      : tile(
        'Agents', `${alive} / ${agents.length}`, alive < agents.length ? 'bad' : 'ok',
        alive < agents.length ? `${count(agents.length - alive, 'agent')} late` : 'all report in time',
      ),
    agentsHidden || !alive ? null : tile(
      'Dataplanes', down ? `${down} down` : 'up', down ? 'bad' : 'ok',
      down ? 'Open vSwitch does not work there' : 'Open vSwitch works on all hosts that report',
    ),
    agentsHidden || !alive ? null : tile(
      'Feed', behind ? `${group(behind)} behind` : 'in sync', behind ? 'warn' : 'ok',
      behind ? 'changes not applied by the slowest host' : 'hosts have applied all changes',
    ),
    portTile(ports),
    status?.database ? tile(
      'Database', `${status.database.round_trip_ms ?? '–'} ms`,
      status.database.schema_version === status.database.schema_needed ? 'ok' : 'bad',
      `${clean(status.database.dialect)} ${clean(status.database.server_version)} · round trip`,
    ) : null,
  ];
}

/** A failed binding, a port without a host, and a bound port that is down are three things. @param {any[]} ports */
function portTile(ports) {
  const real = ports.filter((port) => !isVirtual(port));
  const by = (/** @type {(port: any) => boolean} */ wanted) => real.filter(wanted).length;
  const failed = by((port) => bindingOf(port) === 'failed');
  const error = by((port) => port.status === 'ERROR' && bindingOf(port) !== 'failed');
  const unbound = by((port) => bindingOf(port) === 'unbound');
  const down = by((port) => port.status === 'DOWN' && ['bound', 'hidden'].includes(bindingOf(port)));
  const words = [
    `${group(by((port) => port.status === 'ACTIVE'))} active`, down && `${group(down)} down`, unbound && `${group(unbound)} not bound`,
    failed && `${group(failed)} with a failed binding`, error && `${group(error)} in error`,
  ];
  return tile('Ports', group(real.length), failed || error ? 'bad' : 'ok', words.filter(Boolean).join(' · '));
}

/** One kind of problem with all of its objects. @param {import('../data/health.js').Problem} problem */
function entry(problem) {
  const { items, count: number } = problem;
  const kind = TITLES[problem.kind]?.toLowerCase() ?? 'object';
  const alone = items.length === 1 && number === 1;
  return h('li', { class: `finding is-${problem.severity}`, 'data-key': problem.key },
    h('span', { class: 'finding-mark' }, icon(problem.severity === 'note' ? 'info' : problem.severity, WORDS[problem.severity])),
    h('div', { class: 'grow' },
      h('p', { class: 'finding-title' }, h('strong', {}, data(problem.title)),
        alone ? subject(items[0]) : h('span', { class: 'muted' }, `${problem.more ? 'at least ' : ''}${count(number, kind)}`)),
      problem.text ? h('p', {}, data(problem.text)) : null,
      problem.fix ? h('p', { class: 'fix' }, h('b', {}, 'Fix: '), data(problem.fix)) : null,
      alone || !items.length ? null : h('details', { open: items.length < MANY }, h('summary', {}, 'Show them'),
        items.length > LONG ? longList(problem.title, items, subject, (item) => `${item.kind}:${item.id}`)
          : h('ul', { class: 'many' }, items.map((item) => h('li', { 'data-key': `${item.kind}:${item.id}` }, subject(item)))),
        number > items.length ? h('p', { class: 'muted' }, `and ${group(number - items.length)} more`) : null)));
}

/** @param {import('../data/health.js').Item} item */
function subject({ kind, id, subject: text }) {
  return id && (isListed(kind) || kind === 'agent' || kind === 'host') ? h(
    'a', { href: linkTo(kind, id), class: 'object-link' }, icon(kind),
    data(text),
  ) : h('span', { class: 'muted' }, data(text));
}

function tile(title, value, name, text) {
  return h(
    'div', { class: `tile is-${name}` },
    h(
      'p', { class: 'tile-title' }, title,
      mark(name, { ok: 'OK', warn: 'Warning', bad: 'Failure', unknown: 'Unknown' }[name]),
    ),
    h('p', { class: 'tile-value' }, value),
    h('p', { class: 'tile-text' }, text),
  );
}

/** @param {any} agent @returns {[string, string]} */
function stateOfAgent(agent) {
  const health = agentHealth(agent);
  if (!agent.alive) return [health, 'Late'];
  if (health === 'bad') return [health, 'Dataplane down'];
  if (health === 'warn') return [health, 'Alive, with problems'];
  return [health, agent.admin_state_up === false ? 'Disabled' : 'Alive'];
}

/** @param {any} agent */
function lastReport(agent) {
  const heartbeat = parseTime(agent.heartbeat_timestamp);
  return heartbeat ? ago(Date.now() - heartbeat) : '–';
}

/** @type {import('./virtual.js').Column<any>[]} */
const AGENT_COLUMNS = [
  { key: 'agent', title: 'Agent', text: (agent) => `${agent.agent_type} ${agent.host}`, cell: (agent) => h('a', { href: linkTo('agent', agent.id) }, data(agent.agent_type)) },
  { key: 'host', title: 'Host', text: (agent) => `${agent.host} ${agent.agent_type}`, cell: (agent) => h('a', { href: linkTo('host', agent.host) }, data(agent.host)) },
  { key: 'state', title: 'State', text: (agent) => `${'bad warn off ok'.indexOf(stateOfAgent(agent)[0])} ${stateOfAgent(agent)[1]} ${agent.host}`, cell: (agent) => state(...stateOfAgent(agent)) },
  { key: 'dataplane', title: 'Dataplane', text: (agent) => clean(agent.configurations?.dataplane) || '–' },
  { key: 'behind', title: 'Behind', text: (agent) => String(agent.configurations?.feed_behind ?? '–') },
  { key: 'report', title: 'Last report', text: (agent) => String(agent.heartbeat_timestamp ?? ''), cell: lastReport },
];

function serverTable(status) {
  const rows = (status.servers ?? []).flatMap((server) => (server.processes ?? []).map((process) => ({ ...process, server: server.name })));
  if (!rows.length) return h('p', { class: 'muted' }, 'No server process has registered itself.');
  return h('div', { class: 'table-frame', tabindex: 0, role: 'region', 'aria-label': 'Table' }, h('table', { class: 'grid' },
    h(
      'thead', {},
      h(
        'tr', {},
        ['Server', 'Process', 'PID', 'Release', 'State', 'Last seen'].map((text) => h('th', { scope: 'col' }, text)),
      ),
    ),
    h('tbody', {}, rows.map((row) => h('tr', { 'data-key': row.id }, h('td', {}, data(row.server)), h('td', {}, data(row.kind)), h('td', {}, row.pid), h('td', {}, data(row.release)),
      h('td', {}, state(row.alive ? 'ok' : 'bad', row.alive ? 'Running' : 'Silent')), h('td', {}, `${row.seen_seconds_ago} s ago`))))));
}
