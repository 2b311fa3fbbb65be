/**
 * The state of each object, as an icon and words, for all views alike: the server's findings, then what the object itself says.
 * Pure.
 *
 * @typedef {'ok' | 'warn' | 'bad' | 'off' | 'unknown'} StateName
 * @typedef {[StateName, string]} State
 * @typedef {{findings: Map<string, {severity: string, words: string}>, silent: Set<string>}} Facts what the server has found by
 *   kind:id, and the hosts that do not report
 */

import { clean } from '../core/format.js';

const SEVERE = { error: 'bad', warning: 'warn' };

/**
 * The server's findings by object. Notes are not in it: the object's own status says the same.
 *
 * @param {any | null} status document of GET /v2.0/status
 * @returns {Facts['findings']}
 */
export function indexFindings(status) {
  /** @type {Facts['findings']} */
  const found = new Map();
  for (const each of status?.problems ?? []) {
    const severity = SEVERE[/** @type {'error'} */ (each.severity)];
    if (!each.resource_id || !severity) continue;
    const key = `${each.resource_type}:${each.resource_id}`;
    if (found.get(key)?.severity === 'bad') continue;
    found.set(key, { severity, words: wordsOf(each.what) });
  }
  return found;
}

/** "router edge (…): no L3 agent hosts it" → "no L3 agent hosts it" @param {string} what */
function wordsOf(what) {
  const text = clean(what);
  const at = text.indexOf(': ');
  return at > 0 ? text.slice(at + 2) : text;
}

/**
 * @param {string} kind
 * @param {any} object
 * @param {Facts} facts
 * @returns {State}
 */
export function stateOf(kind, object, facts) {
  if (object.admin_state_up === false) return ['off', 'administratively down'];
  const found = facts.findings.get(`${kind}:${object.id}`);
  if (found?.severity === 'bad') return ['bad', found.words];
  const own = kind === 'port' ? portState(object, facts.silent) : plainState(object);
  if (own[0] === 'ok' && found) return ['warn', found.words];
  return own;
}

/**
 * A failed binding, a port without a host, and a port that its host has not reported as up are three things.
 *
 * @param {any} port
 * @param {Set<string>} silent
 * @returns {State}
 */
function portState(port, silent) {
  const kind = bindingOf(port);
  if (kind === 'failed') return ['bad', 'binding failed'];
  if (port.status === 'ERROR') return ['bad', 'error'];
  if (kind === 'unbound') return ['unknown', 'not bound'];
  if (kind === 'bound' && silent.has(port['binding:host_id'])) return ['unknown', 'its host does not report'];
  return plainState(port);
}

/** @param {any} object @returns {State} */
function plainState({ status }) {
  if (status === 'ACTIVE') return ['ok', 'active'];
  if (status === 'ERROR') return ['bad', 'error'];
  if (status === 'DOWN') return ['warn', 'down'];
  if (status === 'BUILD' || status === 'PENDING') return ['unknown', 'being built'];
  return ['unknown', clean(status).toLowerCase() || 'unknown'];
}

/**
 * How a port is bound; members do not see it.
 *
 * @param {any} port
 * @returns {'bound' | 'unbound' | 'failed' | 'hidden'}
 */
export function bindingOf(port) {
  if (port['binding:vif_type'] === 'binding_failed') return 'failed';
  if (!('binding:host_id' in port)) return 'hidden';
  if (!port['binding:host_id'] || port['binding:vif_type'] === 'unbound') return 'unbound';
  return 'bound';
}

/** Ports that do not belong on a host, such as that of a floating IP. @param {any} port */
export function isVirtual(port) {
  return port.status === 'N/A' || port.device_owner === 'network:floatingip';
}
