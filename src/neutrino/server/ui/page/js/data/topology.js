/**
 * The topology, as a pure function of the tables: which router is attached to which network, which port is on it.
 *
 * @typedef {{id: string, port: any, label: string, ips: string[], floatingIps: any[], status: string}} Member
 * @typedef {{id: string, network: any, name: string, external: boolean, project: string, subnets: any[],
 *   attachments: {routerId: string, ips: string[], portId: string}[], members: Member[], services: any[],
 *   floatingIps: any[]}} NetworkNode
 * @typedef {{id: string, router: any, name: string, project: string, gatewayId: string, gatewayIps: string[],
 *   networkIds: string[]}} RouterNode
 * @typedef {{networks: Map<string, NetworkNode>, routers: Map<string, RouterNode>, projects: string[]}} Topology
 */

import { clean, nameOf, shortId } from '../core/format.js';
import { byName, compareText, sortedBy } from '../core/order.js';

const INTERFACES = new Set([
  'network:router_interface', 'network:router_interface_distributed', 'network:ha_router_replicated_interface',
]);

/** The network of an HA router's instances: of no project, and not for instances. @param {any} network */
export function isHaNetwork(network) {
  return !network.project_id && /^HA network tenant /.test(network.name ?? '');
}

/** Whether a port is of an instance or of a user, not one of the networking service's own. */
export function isMember(port) {
  return !(port.device_owner ?? '').startsWith('network:');
}

/** What a port is called: its name, its DNS name, or the start of the instance's or its own id. */
export function portLabel(port) {
  const device = (port.device_owner ?? '').startsWith('compute:') && port.device_id ? `instance ${shortId(port.device_id)}` : '';
  return clean(port.name) || clean(port.dns_name) || device || `port ${shortId(port.id)}`;
}

/**
 * @param {Object<string, Map<string, any>>} tables
 * @returns {Topology}
 */
export function buildTopology(tables) {
  const networks = new Map();
  for (const network of tables.network.values()) networks.set(network.id, newNetwork(network));
  for (const subnet of tables.subnet.values()) networks.get(subnet.network_id)?.subnets.push(subnet);
  const routers = new Map();
  for (const router of tables.router.values()) routers.set(router.id, newRouter(router));

  const floatingIps = new Map();
  for (const floatingIp of tables.floatingip.values()) {
    networks.get(floatingIp.floating_network_id)?.floatingIps.push(floatingIp);
    if (!floatingIp.port_id) continue;
    if (!floatingIps.has(floatingIp.port_id)) floatingIps.set(floatingIp.port_id, []);
    floatingIps.get(floatingIp.port_id).push(floatingIp);
  }

  for (const port of tables.port.values()) {
    const network = networks.get(port.network_id);
    if (!network) continue;
    if (INTERFACES.has(port.device_owner)) attach(network, routers.get(port.device_id), port);
    else if (isMember(port)) network.members.push(memberOf(port, floatingIps.get(port.id)));
    else network.services.push(port);
  }
  for (const network of networks.values()) {
    if (network.subnets.length > 1) network.subnets.sort((a, b) => a.ip_version - b.ip_version || compareText(a.cidr, b.cidr));
    if (network.members.length > 1) network.members = sortedBy(network.members, (each) => each.label, (each) => each.id);
    if (network.floatingIps.length > 1) network.floatingIps.sort((a, b) => compareText(a.floating_ip_address, b.floating_ip_address));
    if (network.attachments.length > 1) network.attachments.sort((a, b) => byName(routers.get(a.routerId), routers.get(b.routerId)));
  }
  return { networks, routers, projects: projectsOf(networks, routers) };
}

function newNetwork(network) {
  return {
    id: network.id, network, name: nameOf(network), external: network['router:external'] === true,
    project: network.project_id ?? '', subnets: [], attachments: [], members: [], services: [], floatingIps: [],
  };
}

function newRouter(router) {
  const gateway = router.external_gateway_info;
  return {
    id: router.id, router, name: nameOf(router), project: router.project_id ?? '',
    gatewayId: gateway?.network_id ?? '',
    gatewayIps: (gateway?.external_fixed_ips ?? []).map((fixed) => fixed.ip_address), networkIds: [],
  };
}

/** Of ports that have not changed since the last time: most of a large cloud. @type {WeakMap<any, Member>} */
const members = new WeakMap();
/** @type {any[]} */
const NONE = [];

/** A port as a line below its network. @param {any} port @param {any[]} [floatingIps] @returns {Member} */
export function memberOf(port, floatingIps = NONE) {
  const known = members.get(port);
  if (known && !known.floatingIps.length && !floatingIps.length) return known;
  const ips = (port.fixed_ips ?? []).map((/** @type {any} */ fixed) => fixed.ip_address);
  const member = { id: port.id, port, label: portLabel(port), ips, floatingIps, status: port.status };
  members.set(port, member);
  return member;
}

/** A router has one port per IPv6 network and per IPv4 subnet, and a distributed one has several more: one attachment. */
function attach(network, router, port) {
  if (!router) return;
  const ips = (port.fixed_ips ?? []).map((fixed) => fixed.ip_address);
  const known = network.attachments.find((each) => each.routerId === router.id);
  if (known) {
    known.ips.push(...ips);
    return;
  }
  network.attachments.push({ routerId: router.id, ips, portId: port.id });
  router.networkIds.push(network.id);
}

function projectsOf(networks, routers) {
  const found = new Set();
  // External networks are drawn above all projects, so theirs is no project to choose.
  for (const { project, external } of [...networks.values(), ...routers.values()]) if (!external && project) found.add(project);
  return [...found].sort();
}
