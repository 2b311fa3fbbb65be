/** Pure: objects, hosts and projects by a part of their name, id, address, MAC address or CIDR. */

import { clean, nameOf, shortId } from '../core/format.js';
import { compareText } from '../core/order.js';
import { portLabel } from './topology.js';

/**
 * @typedef {{kind: string, id: string, title: string, text: string}} Hit
 * @typedef {{tables: Object<string, Map<string, any>>, hosts?: import('./hosts.js').Host[], projects?: {id: string, name: string}[],
 *   projectName?: (id: string) => string}} Searched
 */

/**
 * @param {Searched} searched
 * @param {string} query
 * @param {number} [limit]
 * @returns {Hit[]} the best first
 */
export function search({ tables, hosts = [], projects = [], projectName = shortId }, query, limit = 30) {
  const wanted = clean(query).toLowerCase();
  if (!wanted) return [];
  /** @type {{kind: string, object: any, title: string, text: string, rank: number}[]} */
  const found = [];
  const consider = (/** @type {string} */ kind, /** @type {any} */ object, /** @type {string} */ title, /** @type {any[]} */ words, text = '') => {
    const rank = rankOf(wanted, title, words);
    if (rank < 3) found.push({ kind, object, title, text, rank });
  };
  for (const host of hosts) consider('host', { id: host.name }, clean(host.name), [host.tunnelIp], host.tunnelIp);
  for (const project of projects) consider('project', project, clean(project.name), [project.id], shortId(project.id));
  for (const [kind, words] of Object.entries(WORDS)) {
    for (const object of tables[kind]?.values() ?? []) consider(kind, object, titleOf(kind, object), words(object));
  }
  found.sort((a, b) => a.rank - b.rank || compareText(a.title, b.title) || (a.object.id < b.object.id ? -1 : 1));
  return found.slice(0, limit).map(({ kind, object, title, text }) => ({
    kind, id: object.id, title, text: text || whereOf(kind, object, tables, projectName),
  }));
}

/** @param {string} wanted @param {string} title @param {any[]} words */
function rankOf(wanted, title, words) {
  let best = rank(wanted, title);
  for (const word of words) if (word) best = Math.min(best, rank(wanted, word));
  return best;
}

/** 0 equal, 1 at the start, 2 within, 3 not. @param {string} wanted @param {string} word */
function rank(wanted, word) {
  const at = word.toLowerCase().indexOf(wanted);
  return at < 0 ? 3 : at > 0 ? 2 : word.length === wanted.length ? 0 : 1;
}

/** @param {string} kind @param {any} object */
function titleOf(kind, object) {
  if (kind === 'port') return portLabel(object);
  if (kind === 'subnet') return clean(object.name) || object.cidr;
  return kind === 'floatingip' ? object.floating_ip_address : nameOf(object);
}

/** @type {Object<string, (object: any) => any[]>} */
const WORDS = {
  network: (network) => [network.id],
  router: (router) => [router.id, ...addresses(router.external_gateway_info?.external_fixed_ips)],
  port: (port) => [port.id, port.mac_address, port.device_id, ...addresses(port.fixed_ips)],
  subnet: (subnet) => [subnet.id, subnet.cidr, subnet.gateway_ip],
  floatingip: (floatingIp) => [floatingIp.id, floatingIp.fixed_ip_address],
  security_group: (group) => [group.id],
};

/** @param {{ip_address: string}[] | undefined} fixed */
function addresses(fixed) {
  return (fixed ?? []).map((each) => each.ip_address);
}

/** What tells hits of one name apart: address, network, project. */
/** @param {string} kind @param {any} object @param {Object<string, Map<string, any>>} tables @param {(id: string) => string} projectName */
function whereOf(kind, object, tables, projectName) {
  const network = tables.network?.get(object.network_id ?? object.floating_network_id);
  const address = {
    port: addresses(object.fixed_ips)[0], subnet: object.cidr, floatingip: object.fixed_ip_address ?? 'not associated',
  }[kind];
  const project = object.project_id ? projectName(object.project_id) : '';
  return [address, network && nameOf(network), project].filter(Boolean).join(' · ') || shortId(object.id);
}
