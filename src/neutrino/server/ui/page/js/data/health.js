/**
 * Findings on the health of the cloud, as a pure function of what the API shows.
 *
 * @typedef {{severity: 'bad' | 'warn', title: string, text: string, subject: string, kind: string,
 *   id: string, fix?: string}} Finding
 */

import { clean, shortId } from '../core/format.js';
import { isDown, problemsOf } from './hosts.js';
import { isMember, portLabel } from './topology.js';

/**
 * @param {any[]} agents
 * @param {Object<string, Map<string, any>>} tables
 * @param {any | null} status document of GET /v2.0/status: its problems also have their meaning and fix
 * @returns {Finding[]}
 */
export function findings(agents, tables, status = null) {
  const reported = Array.isArray(status?.problems) ? status.problems.map(ofProblem) : [];
  const known = new Set(reported.map(({ kind, id }) => `${kind}:${id}`));
  const own = [...agents.flatMap(ofAgent), ...ofPorts(tables.port), ...ofStatusFields(tables)];
  const found = [...reported, ...own.filter(({ kind, id }) => !known.has(`${kind}:${id}`))];
  const rank = { bad: 0, warn: 1 };
  return found.sort((a, b) => rank[a.severity] - rank[b.severity] || (a.subject < b.subject ? -1 : a.subject > b.subject ? 1 : 0));
}

function ofAgent(agent) {
  const subject = `${agent.agent_type} on ${agent.host}`;
  const of = (severity, title, text) => ({ severity, title, text, subject, kind: 'agent', id: agent.id });
  const found = [];
  const own = agent.configurations ?? {};
  if (!agent.alive) {
    const disabled = agent.admin_state_up === false ? ' It is disabled.' : '';
    found.push(of('bad', 'Agent late', `The last report was at ${agent.heartbeat_timestamp} UTC.${disabled}`));
    return found; // what it reported before is not current
  }
  if (isDown(agent)) {
    found.push(of('bad', 'Dataplane down', own.dataplane.replace(/^down:?\s*/, '') || 'Open vSwitch does not answer.'));
  }
  if (own.feed_behind > 0) {
    found.push(of('warn', `${own.feed_behind} changes behind`, 'The host has not applied the newest changes yet.'));
  }
  for (const [name, reason] of problemsOf(agent)) {
    found.push(of('warn', `Problem: ${shortId(name)}`, clean(reason)));
  }
  return found;
}

function ofPorts(ports) {
  const found = [];
  for (const port of ports.values()) {
    const of = (severity, title, text) => ({ severity, title, text, subject: portLabel(port), kind: 'port', id: port.id });
    if (port['binding:vif_type'] === 'binding_failed') {
      found.push(of(
        'bad', 'Binding failed',
        `No driver could bind the port on host ${port['binding:host_id'] || '(none)'}.`,
      ));
    } else if (port.status === 'ERROR') {
      found.push(of('bad', 'Port in error', 'The port has the status ERROR.'));
    } else if (port.status === 'DOWN' && port['binding:host_id'] && port.admin_state_up && isMember(port)) {
      found.push(of(
        'warn', 'Port down',
        `It is bound to ${port['binding:host_id']}, and the host has not reported it as up.`,
      ));
    }
  }
  return found;
}

function ofStatusFields(tables) {
  const found = [];
  for (const [kind, what] of [['router', 'Router'], ['floatingip', 'Floating IP']]) {
    for (const object of tables[kind].values()) {
      if (object.status !== 'ERROR') continue;
      const subject = clean(object.name) || clean(object.floating_ip_address) || shortId(object.id);
      found.push({ severity: 'bad', title: `${what} in error`, text: 'It has the status ERROR.', subject, kind, id: object.id });
    }
  }
  return found;
}

function ofProblem(problem) {
  const severity = problem.severity === 'error' ? 'bad' : 'warn';
  const [named, what] = split(clean(problem.what));
  const subject = named.replace(` (${problem.resource_id})`, '').replace(new RegExp(`^${problem.resource_type} `), '');
  const of = { severity, kind: problem.resource_type ?? '', id: problem.resource_id ?? '', fix: clean(problem.fix) };
  return { ...of, title: what, subject, text: clean(problem.meaning) };
}

/** "L3 agent on h1: no report for 90 s" → subject and title; a text without a subject is a title. */
function split(what) {
  const at = what.indexOf(': ');
  return at > 0 && at < 120 ? [what.slice(0, at), sentence(what.slice(at + 2))] : ['', sentence(what)];
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
