/** Pure: objects by a part of their name, id, address, MAC address or CIDR. */

import { clean, nameOf, shortId } from '../core/format.js';
import { portLabel } from './topology.js';

/**
 * @param {Object<string, Map<string, any>>} tables
 * @param {string} query
 * @param {number} limit
 * @returns {{kind: string, id: string, title: string, text: string}[]} the best first
 */
export function search(tables, query, limit = 30) {
  const wanted = clean(query).toLowerCase();
  if (!wanted) return [];
  const found = [];
  for (const [kind, describe] of Object.entries(DESCRIBED)) {
    for (const object of tables[kind]?.values() ?? []) {
      const entry = describe(object);
      const rank = rankOf(wanted, [entry.title, object.id, ...entry.words]);
      if (rank < 3) found.push({ kind, id: object.id, title: entry.title, text: entry.text, rank });
    }
  }
  found.sort((a, b) => a.rank - b.rank || a.title.localeCompare(b.title) || (a.id < b.id ? -1 : 1));
  return found.slice(0, limit).map(({ rank, ...rest }) => rest);
}

function rankOf(wanted, words) {
  let best = 3;
  for (const word of words) {
    const at = clean(word).toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    best = Math.min(best, clean(word).length === wanted.length ? 0 : at === 0 ? 1 : 2);
  }
  return best;
}

const DESCRIBED = {
  network: (network) => ({ title: nameOf(network), text: shortId(network.id), words: [] }),
  router: (router) => ({
    title: nameOf(router), text: shortId(router.id),
    words: (router.external_gateway_info?.external_fixed_ips ?? []).map((fixed) => fixed.ip_address),
  }),
  port: (port) => {
    const ips = (port.fixed_ips ?? []).map((fixed) => fixed.ip_address);
    return { title: portLabel(port), text: ips.join(', '), words: [...ips, port.mac_address, port.device_id] };
  },
  subnet: (subnet) => ({ title: clean(subnet.name) || subnet.cidr, text: subnet.cidr, words: [subnet.cidr, subnet.gateway_ip] }),
  floatingip: (floatingIp) => ({
    title: floatingIp.floating_ip_address, text: floatingIp.fixed_ip_address ?? 'not associated', words: [floatingIp.fixed_ip_address],
  }),
  security_group: (group) => ({ title: nameOf(group), text: shortId(group.id), words: [] }),
};
