/**
 * Findings on the health of the cloud, as a pure function of what the API shows.
 *
 * @typedef {{severity: 'bad' | 'warn', title: string, text: string, subject: string, kind: string,
 *   id: string, fix?: string}} Finding
 */

import { clean, shortId } from '../core/format.js';

const STATUS_KINDS = ['port', 'router', 'floatingip'];

/**
 * @param {Object<string, Map<string, any>>} tables
 * @param {any | null} status document of GET /v2.0/status; members do not see it, only the status of their objects
 * @returns {Finding[]}
 */
export function findings(tables, status = null) {
  const found = status ? [...(status.problems ?? []), ...(status.notes ?? [])].map(ofProblem) : STATUS_KINDS.flatMap((kind) => inError(kind, tables[kind]));
  const rank = { bad: 0, warn: 1 };
  return found.sort((a, b) => rank[a.severity] - rank[b.severity] || (a.subject < b.subject ? -1 : a.subject > b.subject ? 1 : 0));
}

function inError(kind, objects) {
  return [...objects.values()].filter(({ status }) => status === 'ERROR').map((object) => {
    const subject = clean(object.name) || clean(object.floating_ip_address) || shortId(object.id);
    return { severity: 'bad', title: 'Its status is ERROR', text: '', subject, kind, id: object.id };
  });
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
