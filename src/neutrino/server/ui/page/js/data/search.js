/** Pure: objects, hosts and projects by a part of their name, id, address, MAC address or CIDR. */

import { clean, nameOf, shortId } from '../core/format.js';
import { compareText } from '../core/order.js';
import { memberOf } from './topology.js';

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
  const consider = (/** @type {string} */ kind, /** @type {any} */ object, /** @type {string} */ title, /** @type {string[]} */ words, text = '') => {
    const rank = rankOf(wanted, words);
    if (rank < 3) found.push({ kind, object, title, text, rank });
  };
  const lower = (/** @type {any[]} */ ...words) => words.filter(Boolean).map((word) => word.toLowerCase());
  for (const host of hosts) consider('host', { id: host.name }, clean(host.name), lower(clean(host.name), host.tunnelIp), host.tunnelIp);
  for (const project of projects) consider('project', project, clean(project.name), lower(clean(project.name), project.id), shortId(project.id));
  for (const kind of Object.keys(WORDS)) {
    for (const object of tables[kind]?.values() ?? []) {
      const { title, words } = textsOf(kind, object);
      consider(kind, object, title, words);
    }
  }
  found.sort((a, b) => a.rank - b.rank || compareText(a.title, b.title) || (a.object.id < b.object.id ? -1 : 1));
  return found.slice(0, limit).map(({ kind, object, title, text }) => ({
    kind, id: object.id, title, text: text || whereOf(kind, object, tables, projectName),
  }));
}

/** Texts of objects that have not changed since the last time. @type {WeakMap<any, {title: string, words: string[]}>} */
const texts = new WeakMap();

/** The title of an object, and all texts by which it is found, in small letters. @param {string} kind @param {any} object */
export function textsOf(kind, object) {
  let known = texts.get(object);
  if (!known) {
    const title = titleOf(kind, object);
    known = { title, words: [title, ...WORDS[kind](object)].filter(Boolean).map((word) => word.toLowerCase()) };
    texts.set(object, known);
  }
  return known;
}

/** @param {string} wanted @param {string[]} words */
function rankOf(wanted, words) {
  let best = 3;
  for (const word of words) best = Math.min(best, rank(wanted, word));
  return best;
}

/** 0 equal, 1 at the start, 2 within, 3 not. @param {string} wanted @param {string} word */
function rank(wanted, word) {
  const at = word.indexOf(wanted);
  return at < 0 ? 3 : at > 0 ? 2 : word.length === wanted.length ? 0 : 1;
}

/** @param {string} kind @param {any} object */
function titleOf(kind, object) {
  if (kind === 'port') return memberOf(object).label;
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
