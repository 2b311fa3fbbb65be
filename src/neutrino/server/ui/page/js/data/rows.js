/**
 * The rows of the tables of ports, networks, routers and hosts, with their filters and order. Pure.
 *
 * @typedef {{id: string, kind: string, object: any, name: string, project: string, state: import('./states.js').State, cells: Object<string, any>,
 *   words?: string}} Row
 * @typedef {{q: string, state: string, project: string, sort: string, down: boolean}} Wanted
 */

import { clean, nameOf } from '../core/format.js';
import { sortedBy } from '../core/order.js';
import { hostWord } from './hosts.js';
import { stateOf } from './states.js';
import { isHaNetwork, memberOf } from './topology.js';

/** @typedef {import('./derived.js').Derived} Derived */

/** @param {Derived} derived @returns {Row[]} */
function portRows({ store, facts, projectName }) {
  const found = [];
  for (const port of store.tables.port.values()) found.push(portRow(port, store, facts, projectName));
  return found;
}

/** Rows of ports that have not changed since the last time, each with what it was made from. @type {WeakMap<any, {row: Row, network: any, router: any}>} */
const portRowsMade = new WeakMap();

/**
 * The row of a port; the same one as long as it shows the same.
 *
 * @param {any} port @param {import('./store.js').Store} store @param {import('./states.js').Facts} facts
 * @param {(id: string) => string} projectName
 * @returns {Row}
 */
export function portRow(port, store, facts, projectName) {
  const network = store.get('network', port.network_id);
  const router = (port.device_owner ?? '').startsWith('network:') ? store.get('router', port.device_id) : undefined;
  const state = stateOf('port', port, facts);
  const known = portRowsMade.get(port);
  if (known && known.network === network && known.router === router && known.row.state[0] === state[0] && known.row.state[1] === state[1]) return known.row;
  const row = newRow('port', port, memberOf(port).label, state, projectName, {
    addresses: (port.fixed_ips ?? []).map((/** @type {any} */ fixed) => fixed.ip_address).join(' '), mac: port.mac_address ?? '',
    network: network ? nameOf(network) : '', networkId: port.network_id, host: clean(port['binding:host_id']),
    owner: router ? nameOf(router) : clean(port.device_owner),
  });
  portRowsMade.set(port, { row, network, router });
  return row;
}

/** @param {Derived} derived @returns {Row[]} */
function networkRows({ topology, facts, projectName }) {
  return [...topology.networks.values()].map((node) => newRow('network', node.network, node.name, stateOf('network', node.network, facts), projectName, {
    subnets: node.subnets.map((subnet) => subnet.cidr).join(' '), ports: node.members.length + node.services.length,
    type: [node.network['provider:network_type'], node.network['provider:segmentation_id']].filter(Boolean).join(' '),
    use: [node.external && 'external', node.network.shared && 'shared', isHaNetwork(node.network) && 'HA'].filter(Boolean).join(', '),
  }));
}

/** @param {Derived} derived @returns {Row[]} */
function routerRows({ topology, facts, projectName, placements }) {
  return [...topology.routers.values()].map((node) => {
    const placed = placements.get(node.id);
    return newRow('router', node.router, node.name, stateOf('router', node.router, facts), projectName, {
      gateway: node.gatewayIps.join(' '), networks: node.networkIds.length,
      kind: [node.router.ha && 'HA', node.router.distributed && 'distributed'].filter(Boolean).join(', ') || 'centralized',
      hosts: (placed?.instances ?? []).filter((/** @type {any} */ each) => each.state === 'active').map((/** @type {any} */ each) => clean(each.host)).join(' '),
      standby: (placed?.instances ?? []).filter((/** @type {any} */ each) => each.state === 'standby').map((/** @type {any} */ each) => clean(each.host)).join(' '),
    });
  });
}

/** @param {Derived} derived @returns {Row[]} */
function hostRows({ hosts, projectName }) {
  return hosts.map((host) => newRow('host', { id: host.name }, clean(host.name), [host.health, hostWord(host)], projectName, {
    agents: host.agents.length, late: host.agents.filter((agent) => !agent.alive).length, ports: host.ports.length,
    tunnel: host.tunnelIp, zone: clean(host.zone),
    behind: host.agents.reduce((most, agent) => Math.max(most, Number(agent.configurations?.feed_behind) || 0), 0),
  }));
}

/**
 * @param {string} kind @param {any} object @param {string} name @param {import('./states.js').State} state
 * @param {(id: string) => string} projectName @param {Object<string, any>} cells
 * @returns {Row}
 */
function newRow(kind, object, name, state, projectName, cells) {
  return { id: object.id, kind, object, name, project: object.project_id ? projectName(object.project_id) : '', state, cells };
}

/** @type {Object<string, (derived: Derived) => Row[]>} */
export const ROWS = { port: portRows, network: networkRows, router: routerRows, host: hostRows };

/** Filters by state: what operators look for, not each single state. @type {Object<string, [string, string[]]>} */
export const STATES = {
  problems: ['Only problems', ['bad', 'warn']], bad: ['Failures', ['bad']], ok: ['Healthy', ['ok']],
  other: ['Not bound, off or unknown', ['unknown', 'off']],
};

/**
 * @param {Row[]} rows
 * @param {Wanted} wanted
 * @param {(row: Row) => string} textOf what the order is by
 * @returns {Row[]}
 */
export function choose(rows, { q, state, project, down }, textOf) {
  const text = clean(q).toLowerCase();
  const states = Object.hasOwn(STATES, state) ? STATES[state][1] : null;
  const found = rows.filter((row) =>
    (!states || states.includes(row.state[0])) && (!project || row.object.project_id === project || row.kind === 'host')
    && (!text || wordsOf(row).includes(text) || row.id.startsWith(text)));
  const sorted = sortedBy(found, textOf, (row) => row.id);
  return down ? sorted.reverse() : sorted;
}

/** @param {Row} row */
function wordsOf(row) {
  const cells = Object.entries(row.cells).filter(([key]) => !key.endsWith('Id')).map(([, value]) => value); // ids have any letters
  row.words ??= [row.name, row.project, row.state[1], ...cells].join('\n').toLowerCase();
  return row.words;
}
