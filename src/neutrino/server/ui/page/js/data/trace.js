/** Pure: the request of a trace from the form, and the path of its answer on the graph. */

import { clean, nameOf } from '../core/format.js';
import { isAddress } from './addresses.js';
import { textsOf } from './search.js';
import { isMember, portLabel } from './topology.js';

export const PROTOCOLS = ['icmp', 'tcp', 'udp', 'sctp'];
/** What a link to a trace has. */
export const FIELDS = ['from', 'to', 'protocol', 'port', 'size', 'version', 'flows'];
const OFFERED = 20;

/**
 * The text of a port in the form. It ends with the start of its id: ports may have equal names and addresses.
 *
 * @param {any} port
 * @param {Object<string, Map<string, any>>} tables
 * @param {(id: string) => string} projectName
 */
export function portText(port, tables, projectName) {
  const network = tables.network.get(port.network_id);
  const address = port.fixed_ips?.[0]?.ip_address;
  const where = [network && nameOf(network), port.project_id && projectName(port.project_id)].filter(Boolean).join(', ');
  return `${portLabel(port)} (${address ?? 'no address'})${where ? ` on ${where}` : ''} #${port.id.slice(0, 8)}`;
}

/**
 * The ports that a text may mean: one by its id, the end of its text, or all of that name, MAC address or start of an id.
 *
 * @param {string} text
 * @param {Map<string, any>} ports
 * @returns {any[]}
 */
export function findPorts(text, ports) {
  const wanted = clean(text).toLowerCase();
  if (!wanted) return [];
  const known = ports.get(wanted) ?? ports.get(clean(text));
  if (known) return [known];
  const marked = / #([0-9a-f]{8})$/.exec(wanted);
  const all = [...ports.values()];
  if (marked) return all.filter((port) => port.id.startsWith(marked[1]));
  const named = all.filter((port) => isMember(port) && (portLabel(port).toLowerCase() === wanted || port.mac_address?.toLowerCase() === wanted));
  if (named.length || !/^[0-9a-f-]{4,}$/.test(wanted)) return named;
  return all.filter((port) => port.id.startsWith(wanted));
}

/**
 * Ports that the form offers for what was typed.
 *
 * @param {string} text
 * @param {Map<string, any>} ports
 * @returns {any[]}
 */
export function suggestions(text, ports) {
  const wanted = clean(text).toLowerCase();
  const found = [];
  for (const port of ports.values()) {
    if (!isMember(port)) continue;
    if (wanted && !textsOf('port', port).words.some((word) => word.includes(wanted))) continue;
    found.push(port);
    if (found.length === OFFERED) break;
  }
  return found;
}

/**
 * The body of POST /v2.0/traces, or the errors of the form by field.
 *
 * @param {Object<string, any>} form from, to, protocol, port, size, version, flows
 * @param {(text: string) => any[]} find the ports that a text may mean
 */
export function traceRequest(form, find) {
  /** @type {Object<string, string>} */
  const errors = {};
  /** @type {Object<string, any>} */
  const trace = {};
  const from = (form.from ?? '').trim();
  const to = (form.to ?? '').trim();
  const end = (/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ as) => {
    if (!text) errors[name] = 'Choose a port, or enter an address.';
    else if (name === 'from' && /^external$/i.test(text)) trace.source = 'external';
    else if (isAddress(text)) trace[`${as}_address`] = text;
    else {
      const found = find(text);
      if (found.length === 1) trace[`${as}_port_id`] = found[0].id;
      else errors[name] = found.length ? `${found.length} ports have this name: choose one of them.` : 'No port has this name, MAC address or id.';
    }
  };
  end('from', from, 'source');
  end('to', to, 'destination');
  const protocol = PROTOCOLS.includes(form.protocol) ? form.protocol : 'icmp';
  trace.protocol = protocol;
  if (protocol !== 'icmp') {
    const port = Number(form.port);
    if (!/^\d+$/.test(form.port ?? '') || port < 1 || port > 65535) errors.port = 'A port is a number from 1 to 65535.';
    else trace.destination_port = port;
  }
  if (form.size) {
    const size = Number(form.size);
    if (!/^\d+$/.test(form.size) || size < 28 || size > 65535) errors.size = 'A size is a number of bytes from 28 to 65535.';
    else trace.packet_size = size;
  }
  if (form.version === '4' || form.version === '6') trace.ip_version = Number(form.version);
  if (form.flows) trace.flows = true;
  return { body: { trace }, errors };
}

/**
 * The nodes that a packet passes, in order, each with the numbers of its steps in the list, counted from 1.
 *
 * @typedef {{nodeOf: (kind: string, id: string) => string, between: (a: string, b: string) => string[]}} Graph nodeOf: the node of the
 *   graph that stands for an object, or ''; between: the nodes that lead from one node to another, without these
 * @param {any} trace the answer
 * @param {Graph} graph
 * @returns {{keys: string[], steps: Object<string, number[]>, verdict: string}}
 */
export function pathOfTrace(trace, { nodeOf, between }) {
  /** @type {string[]} */
  const keys = [];
  /** @type {Object<string, number[]>} */
  const steps = {};
  const add = (/** @type {string} */ key) => {
    if (!key || keys.at(-1) === key) return;
    if (keys.length) keys.push(...between(/** @type {string} */ (keys.at(-1)), key));
    if (keys.at(-1) !== key) keys.push(key);
  };
  if (trace.source_port_id) add(nodeOf('port', trace.source_port_id));
  (trace.steps ?? []).forEach((/** @type {any} */ step, /** @type {number} */ at) => {
    const key = step.resource_id ? nodeOf(step.resource_type, step.resource_id) : '';
    if (!key) return;
    add(key);
    (steps[key] ??= []).push(at + 1);
  });
  if (trace.verdict === 'delivered' && trace.destination_port_id) add(nodeOf('port', trace.destination_port_id));
  return { keys, steps, verdict: trace.verdict ?? '' };
}

/**
 * The nodes that lead from one node of the graph to another: from a port by its network, between routers by a network that both
 * are on, external ones first.
 *
 * @param {import('./topology.js').Topology} topology
 * @param {(id: string) => any} portById
 * @returns {(a: string, b: string) => string[]}
 */
export function leadsBetween(topology, portById) {
  const networksOf = (/** @type {string} */ key) => {
    const id = key.slice(key.indexOf(':') + 1);
    if (key.startsWith('network:')) return [id];
    if (key.startsWith('port:')) return [portById(id)?.network_id ?? ''];
    const router = topology.routers.get(id);
    return router ? [router.gatewayId, ...router.networkIds].filter(Boolean) : [];
  };
  return (a, b) => {
    const [from, to] = [networksOf(a), networksOf(b)];
    const common = from.find((id) => to.includes(id));
    if (common) return [`network:${common}`].filter((key) => key !== a && key !== b);
    // A router between two networks, such as of a port and of one that its packet reaches next.
    for (const router of topology.routers.values()) {
      const on = networksOf(`router:${router.id}`);
      const [first, second] = [from.find((id) => on.includes(id)), to.find((id) => on.includes(id))];
      if (first && second) return [`network:${first}`, `router:${router.id}`, `network:${second}`].filter((key) => key !== a && key !== b);
    }
    return [];
  };
}

/**
 * The node of the graph for a step of a trace. A floating IP is translated by its router: its port is reached later.
 *
 * @param {import('./store.js').Store} store
 * @param {(kind: string, id: string) => string} nodeKey
 * @returns {(kind: string, id: string) => string}
 */
export function nodeOfStep(store, nodeKey) {
  return (kind, id) => {
    const routerId = kind === 'floatingip' ? store.get('floatingip', id)?.router_id : '';
    return routerId ? `router:${routerId}` : nodeKey(kind, id);
  };
}

