/**
 * Address usage of subnets, as a pure function.
 *
 * Administrators get it from network-ip-availabilities. Without that list it is counted from the ports that the caller sees,
 * which are all ports of a network only if the network is of the caller's project.
 *
 * @typedef {{id: string, subnet: any, network: any, used: bigint, total: bigint, ratio: number,
 *   source: 'server' | 'ports' | 'partial'}} Usage
 */

import { poolSize } from './addresses.js';

/** Addresses in the pools of subnets that have not changed since the last time. @type {WeakMap<any, bigint>} */
const sizes = new WeakMap();

/**
 * @param {Object<string, Map<string, any>>} tables
 * @param {any[] | null} availabilities of the server, or null if the caller may not see them
 * @param {string | null} project of the caller; null: the caller sees all ports
 * @returns {Usage[]}
 */
export function subnetUsage(tables, availabilities, project) {
  const reported = new Map();
  for (const network of availabilities ?? []) {
    for (const each of network.subnet_ip_availability ?? []) reported.set(each.subnet_id, each);
  }
  const counted = availabilities ? new Map() : countPorts(tables);
  /** @type {Usage[]} */
  const found = [];
  const sizeOf = (/** @type {any} */ subnet) => {
    let size = sizes.get(subnet);
    if (size === undefined) sizes.set(subnet, (size = poolSize(subnet.allocation_pools)));
    return size;
  };
  for (const subnet of tables.subnet.values()) {
    const network = tables.network.get(subnet.network_id) ?? null;
    const known = reported.get(subnet.id);
    const used = known ? BigInt(known.used_ips) : BigInt(counted.get(subnet.id) ?? 0);
    const total = known ? BigInt(known.total_ips) : sizeOf(subnet);
    const whole = known || project === null || network?.project_id === project;
    const ratio = total > 0n ? Math.min(1, Number((used * 10000n) / total) / 10000) : used > 0n ? 1 : 0;
    found.push({ id: subnet.id, subnet, network, used, total, ratio, source: known ? 'server' : whole ? 'ports' : 'partial' });
  }
  return found;
}

function countPorts(tables) {
  const counted = new Map();
  for (const port of tables.port.values()) {
    // Addresses outside the pools, such as a router's, count too, as in the server's own list.
    for (const { subnet_id: id } of port.fixed_ips ?? []) counted.set(id, (counted.get(id) ?? 0) + 1);
  }
  return counted;
}

/** How full a subnet is, in words: the bar's shape and the word say it without the colour. */
export function level(ratio) {
  if (ratio >= 1) return 'full';
  if (ratio >= 0.9) return 'almost full';
  if (ratio >= 0.75) return 'high';
  return 'ok';
}
