/** Health: what fails or is late, with meaning and fix, and the state of servers, database and feed. */

import { h, put } from '../core/dom.js';
import { ago, clean, count, group, parseTime } from '../core/format.js';
import { linkTo } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { agentHealth, isDown } from '../data/hosts.js';
import { KINDS, TITLES } from '../data/kinds.js';
import { data, empty, mark, notice, state } from './parts.js';

const SHOWN = 200;
const MANY = 5;

export class HealthView {
  constructor() {
    this.verdict = h('div', { role: 'status' });
    this.body = h('div', {});
    this.element = h(
      'div', { class: 'page' }, h('header', { class: 'page-head' }, h('h1', {}, 'Health'), this.verdict),
      this.body,
    );
  }

  update({ findings, agents, ports, status, statusHidden, agentsHidden, loaded }) {
    if (!loaded) {
      put(this.body, empty('Loading…', ''));
      return;
    }
    const bad = findings.filter((each) => each.severity === 'bad').length;
    put(
      this.verdict,
      bad ? state('bad', count(bad, 'failure')) : findings.length ? state('warn', count(findings.length, 'warning')) : state('ok', agentsHidden ? 'Nothing you can see is failing' : 'All is well'),
    );
    put(this.body,
      agentsHidden ? notice(
        'info',
        `Agents, hosts and servers are ${agentsHidden}. This page shows the health of your own ports, routers and floating IPs.`,
      ) : null,
      h('div', { class: 'tiles' }, this.tiles(agents, ports, status, agentsHidden)),
      h('section', {}, h('h2', {}, 'Problems'), findings.length ? this.findings(findings)
        : empty('No problems', agentsHidden ? 'Your ports, routers and floating IPs have no failure.' : 'All agents report in time, all dataplanes are up, and hosts have applied all changes.')),
      agents.length ? h('section', {}, h('h2', {}, 'Agents'), agentTable(agents)) : null,
      status ? h('section', {}, h('h2', {}, 'Servers'), serverTable(status)) : statusHidden || agentsHidden ? null : h('p', { class: 'muted' }, 'This server does not report the state of its processes.'));
  }

  tiles(agents, ports, status, agentsHidden) {
    const alive = agents.filter((agent) => agent.alive).length;
    const down = agents.filter((agent) => agent.alive && isDown(agent)).length;
    const behind = Math.max(
      0,
      ...agents.filter((agent) => agent.alive).map((agent) => Number(agent.configurations?.feed_behind) || 0),
    );
    const by = (wanted) => ports.filter((port) => port.status === wanted).length;
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
      tile(
        'Ports', group(ports.filter((port) => port.status !== 'N/A').length), by('ERROR') ? 'bad' : 'ok',
        `${group(by('ACTIVE'))} active · ${group(by('DOWN'))} down${by('ERROR') ? ` · ${group(by('ERROR'))} in error` : ''}`,
      ),
      status?.database ? tile(
        'Database', `${status.database.round_trip_ms ?? '–'} ms`,
        status.database.schema_version === status.database.schema_needed ? 'ok' : 'bad',
        `${clean(status.database.dialect)} ${clean(status.database.server_version)} · round trip`,
      ) : null,
    ];
  }

  findings(findings) {
    const groups = grouped(findings);
    return [h(
      'ul', { class: 'findings' },
      groups.slice(0, SHOWN).map((each) => (each.length > 1 ? several(each) : one(each[0]))),
    ),
      groups.length > SHOWN ? h('p', { class: 'muted' }, `And ${group(groups.length - SHOWN)} more.`) : null];
  }
}

/** Findings of the same title, if they are many, are one entry. */
function grouped(findings) {
  const byTitle = new Map();
  for (const each of findings) {
    const key = `${each.severity} ${each.kind} ${each.title}`;
    byTitle.set(key, [...(byTitle.get(key) ?? []), each]);
  }
  return [...byTitle.values()].flatMap((group) => (group.length >= MANY ? [group] : group.map((each) => [each])));
}

function one(each) {
  return h('li', { class: `finding is-${each.severity}` },
    h('span', { class: 'finding-mark' }, icon(each.severity, each.severity === 'bad' ? 'Failure' : 'Warning')),
    h('div', { class: 'grow' },
      h('p', { class: 'finding-title' }, h('strong', {}, data(each.title)), each.subject ? subject(each) : null),
      each.text ? h('p', {}, data(each.text)) : null,
      each.fix ? h('p', { class: 'fix' }, h('b', {}, 'Fix: '), data(each.fix)) : null));
}

function several(group) {
  const [first] = group;
  const kind = TITLES[first.kind]?.toLowerCase() ?? 'object';
  return h('li', { class: `finding is-${first.severity}` },
    h('span', { class: 'finding-mark' }, icon(first.severity, first.severity === 'bad' ? 'Failure' : 'Warning')),
    h('div', { class: 'grow' },
      h(
        'p', { class: 'finding-title' }, h('strong', {}, data(first.title)),
        h('span', { class: 'muted' }, count(group.length, kind)),
      ),
      first.text ? h('p', {}, data(first.text)) : null,
      first.fix ? h('p', { class: 'fix' }, h('b', {}, 'Fix: '), data(first.fix)) : null,
      h('details', {}, h('summary', {}, 'Show them'), h('ul', { class: 'many' }, group.slice(0, SHOWN).map((each) => h('li', {}, subject(each)))))));
}

function subject({ kind, id, subject: text }) {
  return id && (kind in KINDS || kind === 'agent') ? h(
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

function agentTable(agents) {
  const rows = [...agents].sort((a, b) => a.host.localeCompare(b.host, 'en', { numeric: true }) || (a.agent_type < b.agent_type ? -1 : 1));
  return h('div', { class: 'table-frame' }, h('table', { class: 'grid' },
    h(
      'thead', {},
      h(
        'tr', {},
        ['Agent', 'Host', 'State', 'Dataplane', 'Behind', 'Last report'].map((text) => h('th', { scope: 'col' }, text)),
      ),
    ),
    h('tbody', {}, rows.slice(0, SHOWN).map((agent) => {
      const own = agent.configurations ?? {};
      const heartbeat = parseTime(agent.heartbeat_timestamp);
      const health = agentHealth(agent);
      const words = !agent.alive ? 'Late' : health === 'bad' ? 'Dataplane down' : health === 'warn' ? 'Alive, with problems' : agent.admin_state_up === false ? 'Disabled' : 'Alive';
      return h('tr', {}, h('td', {}, h('a', { href: linkTo('agent', agent.id) }, data(agent.agent_type))), h('td', {}, h('a', { href: linkTo('host', agent.host) }, data(agent.host))),
        h('td', {}, state(health, words)), h('td', {}, own.dataplane ? data(own.dataplane) : '–'), h('td', {}, own.feed_behind ?? '–'), h('td', {}, heartbeat ? ago(Date.now() - heartbeat) : '–'));
    }))));
}

function serverTable(status) {
  const rows = (status.servers ?? []).flatMap((server) => (server.processes ?? []).map((process) => ({ ...process, server: server.name })));
  if (!rows.length) return h('p', { class: 'muted' }, 'No server process has registered itself.');
  return h('div', { class: 'table-frame' }, h('table', { class: 'grid' },
    h(
      'thead', {},
      h(
        'tr', {},
        ['Server', 'Process', 'PID', 'Release', 'State', 'Last seen'].map((text) => h('th', { scope: 'col' }, text)),
      ),
    ),
    h('tbody', {}, rows.map((row) => h('tr', {}, h('td', {}, data(row.server)), h('td', {}, data(row.kind)), h('td', {}, row.pid), h('td', {}, data(row.release)),
      h('td', {}, state(row.alive ? 'ok' : 'bad', row.alive ? 'Running' : 'Silent')), h('td', {}, `${row.seen_seconds_ago} s ago`))))));
}
