/** Pure: the request of a trace from the form, and the path of its answer on the graph. */

import { isAddress } from './addresses.js';

export const PROTOCOLS = ['icmp', 'tcp', 'udp', 'sctp'];

/**
 * The body of POST /v2.0/traces, or the errors of the form by field.
 *
 * @param {Object<string, string>} form from, to, protocol, port, size
 * @param {(text: string) => string | null} findPort id of the port with this id, or with this text in the form
 */
export function traceRequest(form, findPort) {
  const errors = {};
  const trace = {};
  const from = (form.from ?? '').trim();
  const to = (form.to ?? '').trim();
  if (!from) errors.from = 'Choose a port, or enter an address.';
  else if (/^external$/i.test(from)) trace.source = 'external';
  else if (findPort(from)) trace.source_port_id = findPort(from);
  else if (isAddress(from)) trace.source_address = from;
  else errors.from = 'No port has this name or address.';
  if (!to) errors.to = 'Choose a port, or enter an address.';
  else if (findPort(to)) trace.destination_port_id = findPort(to);
  else if (isAddress(to)) trace.destination_address = to;
  else errors.to = 'No port has this name or address.';
  const protocol = form.protocol || 'icmp';
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
 * The nodes that a packet passes, in order, each once in a row.
 *
 * @param {any} trace the answer
 * @param {(kind: string, id: string) => string} nodeKey of the graph
 * @param {(key: string) => string} networkOf the network's node of a port's node
 */
export function pathOfTrace(trace, nodeKey, networkOf) {
  const keys = [];
  const add = (key) => key && keys.at(-1) !== key && keys.push(key);
  const steps = trace.steps ?? [];
  if (trace.source_port_id) add(nodeKey('port', trace.source_port_id));
  for (const step of steps) {
    if (!step.resource_id) continue;
    const key = nodeKey(step.resource_type, step.resource_id);
    if (!key) continue;
    // A line leads from a port to a router by way of the network.
    if (keys.length && networkOf(keys.at(-1)) && networkOf(keys.at(-1)) !== key) add(networkOf(keys.at(-1)));
    if (networkOf(key) && keys.at(-1) !== networkOf(key) && keys.length && keys.at(-1) !== key) add(networkOf(key));
    add(key);
  }
  if (trace.verdict === 'delivered' && trace.destination_port_id) {
    const key = nodeKey('port', trace.destination_port_id);
    if (key && keys.at(-1) !== key && networkOf(key)) add(networkOf(key));
    add(key);
  }
  return { keys: withoutDetours(keys), verdict: trace.verdict };
}

/** a b a c → a b c is wrong, but a n a (a port, its network, the same port) is the port alone. */
function withoutDetours(keys) {
  const out = [];
  for (const key of keys) {
    if (out.length >= 2 && out.at(-2) === key && key.startsWith('port:')) out.pop();
    else if (out.at(-1) !== key) out.push(key);
  }
  return out;
}
