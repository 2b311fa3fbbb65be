/**
 * What fails in the cloud, in groups of one kind each, as a pure function of what the API shows.
 *
 * @typedef {{kind: string, id: string, subject: string}} Item
 * @typedef {{key: string, severity: 'bad' | 'warn' | 'note', title: string, text: string, fix: string, kind: string, items: Item[],
 *   count: number, more: boolean}} Problem
 */

import { clean, nameOf } from '../core/format.js';
import { bindingOf, isVirtual } from './states.js';
import { isMember, portLabel } from './topology.js';

/** @type {Object<string, 'bad' | 'warn' | 'note'>} */
const SEVERITIES = { error: 'bad', warning: 'warn', note: 'note' };
const RANK = { bad: 0, warn: 1, note: 2 };
/** Several findings on one host that have one cause: its agents do not report. */
const SILENT = new Set(['host-down', 'host-disconnected']);

/**
 * @param {Object<string, Map<string, any>>} tables
 * @param {any | null} status document of GET /v2.0/status; members do not see it, only the status of their objects
 * @returns {Problem[]}
 */
export function problemsOf(tables, status = null) {
  /** @type {Map<string, Problem>} */
  const found = new Map();
  if (status) {
    for (const each of [...(status.problems ?? []), ...(status.notes ?? [])]) add(found, each);
    for (const [key, problem] of found) {
      const kind = status.kinds?.[key.slice(0, key.indexOf(' '))];
      if (kind && problem.kind !== 'host') [problem.count, problem.more] = [Math.max(problem.count, kind.number ?? 0), Boolean(kind.more)];
    }
    complete(found.get('binding-failed port'), failed(tables), status.ports?.by_binding?.failed ?? status.kinds?.['binding-failed']?.number);
    complete(found.get('port-not-wired port'), down(tables));
  } else {
    for (const kind of ['port', 'router', 'floatingip']) addOwn(found, kind, tables[kind]);
    const items = failed(tables);
    if (items.length) {
      found.set('binding-failed port', {
        key: 'binding-failed port', severity: 'bad', title: 'The binding failed', kind: 'port', items, count: items.length, more: false,
        text: 'No driver could connect the port on its host.', fix: '',
      });
    }
  }
  for (const problem of found.values()) problem.items.sort((a, b) => (a.subject < b.subject ? -1 : a.subject > b.subject ? 1 : 0));
  return [...found.values()].sort((a, b) => RANK[a.severity] - RANK[b.severity] || (a.title < b.title ? -1 : 1));
}

/**
 * Findings of GET /v2.0/health in the form of the status document: there a kind's meaning and fix are given once.
 *
 * @param {any} problems
 */
export function statusOf({ kinds, findings }) {
  const all = findings.map((/** @type {any} */ each) => ({ meaning: kinds[each.kind]?.meaning, fix: kinds[each.kind]?.fix, ...each }));
  const isNote = (/** @type {any} */ each) => each.severity === 'note';
  return { problems: all.filter((/** @type {any} */ each) => !isNote(each)), notes: all.filter(isNote), kinds };
}

/** How many fail, and how many have a warning. @param {Problem[]} problems */
export function totals(problems) {
  const sum = (/** @type {string} */ severity) =>
    problems.filter((each) => each.severity === severity).reduce((total, each) => total + each.count, 0);
  return { bad: sum('bad'), warn: sum('warn') };
}

/** @param {Map<string, Problem>} found @param {any} finding */
function add(found, finding) {
  const silent = SILENT.has(finding.kind) && finding.host;
  const kind = silent ? 'host' : finding.resource_type ?? '';
  const [named, what] = split(clean(finding.what));
  // One entry for a kind of problem: its texts may have numbers that differ, such as seconds.
  const key = silent ? 'silent host' : `${finding.kind} ${kind}`;
  let problem = found.get(key);
  if (!problem) {
    problem = {
      key, severity: SEVERITIES[finding.severity] ?? 'warn', title: silent ? 'The host does not report' : what,
      text: clean(finding.meaning), fix: clean(finding.fix), kind, items: [], count: 0, more: false,
    };
    found.set(key, problem);
  }
  if (silent) {
    if (!problem.items.some(({ id }) => id === finding.host)) {
      problem.items.push({ kind, id: finding.host, subject: clean(finding.host) });
      problem.count += 1;
    }
    if (finding.severity === 'error') problem.severity = 'bad';
    return;
  }
  const rest = finding.resource_id ? null : /^(\d+|possibly) more /.exec(named);
  if (rest) {
    problem.more ||= rest[1] === 'possibly';
    problem.count += Number(rest[1]) || 0;
    return;
  }
  problem.count += 1;
  const subject = named.replace(` (${finding.resource_id})`, '').replace(new RegExp(`^${escaped(finding.resource_type ?? '')} `), '');
  problem.items.push({ kind, id: finding.resource_id ?? '', subject });
}

/** The server names some objects of each kind; the page knows them all. */
/** @param {Problem | undefined} problem @param {Item[]} items @param {number} [count] */
function complete(problem, items, count = items.length) {
  if (!problem || items.length < problem.items.length) return;
  problem.items = items;
  problem.count = Math.max(count, problem.items.length);
  problem.more = false;
}

/** @param {Object<string, Map<string, any>>} tables @returns {Item[]} */
function failed(tables) {
  return [...tables.port.values()].filter((port) => bindingOf(port) === 'failed').map(itemOf);
}

/** @param {Object<string, Map<string, any>>} tables @returns {Item[]} */
function down(tables) {
  return [...tables.port.values()].filter((port) =>
    bindingOf(port) === 'bound' && port.status === 'DOWN' && port.admin_state_up !== false && isMember(port) && !isVirtual(port)).map(itemOf);
}

/** @param {any} port @returns {Item} */
function itemOf(port) {
  const host = port['binding:host_id'];
  return { kind: 'port', id: port.id, subject: `${portLabel(port)}${host ? ` (host ${clean(host)})` : ''}` };
}

/** @param {Map<string, Problem>} found @param {string} kind @param {Map<string, any>} objects */
function addOwn(found, kind, objects) {
  const items = [...objects.values()].filter(({ status }) => status === 'ERROR').map((object) => ({ kind, id: object.id, subject: nameOf(object) }));
  if (!items.length) return;
  const key = `object-error ${kind}`;
  found.set(key, { key, severity: 'bad', title: 'Its status is ERROR', text: '', fix: '', kind, items, count: items.length, more: false });
}

/** "L3 agent on h1: no report for 90 s" → subject and title; a text without a subject is a title. @param {string} what */
function split(what) {
  const at = what.indexOf(': ');
  return at > 0 && at < 300 ? [what.slice(0, at), sentence(what.slice(at + 2))] : ['', sentence(what)];
}

/** @param {string} text */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
