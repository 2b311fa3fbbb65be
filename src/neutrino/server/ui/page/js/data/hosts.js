/**
 * Hosts with their agents, ports and tunnels, as a pure function.
 *
 * @typedef {'ok' | 'warn' | 'bad' | 'off' | 'unknown'} Health
 * @typedef {{name: string, agents: any[], ports: any[], health: Health, tunnelIp: string, tunnelTypes: string[],
 *   zone: string}} Host
 * @typedef {{a: string, b: string, networks: string[], types: string[], health: Health}} Tunnel
 */

import { compareText } from '../core/order.js';

const TUNNEL_TYPES = new Set(['vxlan', 'gre', 'geneve']);
const RANK = { ok: 0, off: 0, warn: 1, bad: 2 };

export function worst(values) {
  return values.reduce((found, value) => (RANK[value] > RANK[found] ? value : found), 'ok');
}

export function isDown(agent) {
  return String(agent.configurations?.dataplane ?? '').startsWith('down');
}

/** The state of a host in words. */
export function hostWord({ health, agents }) {
  if (!agents.length) return 'No agent';
  if (agents.every((agent) => !agent.alive)) return 'Late';
  if (agents.some((agent) => agent.alive && isDown(agent))) return 'Dataplane down';
  return { ok: 'Healthy', warn: 'Problems reported', bad: 'Agent late', off: 'Disabled' }[health];
}

/** @returns {Health} */
export function agentHealth(agent) {
  const own = agent.configurations ?? {};
  if (!agent.alive) return agent.admin_state_up === false ? 'off' : 'bad';
  if (isDown(agent)) return 'bad';
  if (reportedProblems(agent).length > 0 || own.feed_behind > 0) return 'warn';
  return agent.admin_state_up === false ? 'off' : 'ok';
}

/** Problems that an agent reports: [object, reason] */
export function reportedProblems(agent) {
  const found = agent.configurations?.problems;
  return found && typeof found === 'object' ? Object.entries(found).map(([name, reason]) => [name, String(reason)]) : [];
}

/** Hosts without any agent that reports. @param {any[]} agents @returns {Set<string>} */
export function silentHosts(agents) {
  const found = new Set(agents.map((agent) => agent.host));
  for (const agent of agents) if (agent.alive) found.delete(agent.host);
  return found;
}

/** @param {any[]} agents @param {any[]} ports @returns {Host[]} in the order of their names */
export function buildHosts(agents, ports) {
  const found = new Map();
  const host = (name) => {
    if (!found.has(name)) {
      found.set(name, { name, agents: [], ports: [], health: 'ok', tunnelIp: '', tunnelTypes: [], zone: '' });
    }
    return found.get(name);
  };
  for (const agent of agents) {
    const each = host(agent.host);
    each.agents.push(agent);
    each.tunnelIp ||= agent.configurations?.tunneling_ip ?? '';
    if (agent.configurations?.tunnel_types?.length) each.tunnelTypes = agent.configurations.tunnel_types;
    each.zone ||= agent.availability_zone ?? '';
  }
  for (const port of ports) if (port['binding:host_id']) host(port['binding:host_id']).ports.push(port);
  for (const each of found.values()) {
    each.agents.sort((a, b) => (a.agent_type < b.agent_type ? -1 : 1));
    each.health = each.agents.length ? worst(each.agents.map(agentHealth)) : 'warn';
  }
  return [...found.values()].sort((a, b) => compareText(a.name, b.name));
}

/**
 * Tunnels that carry networks: between two hosts that both have ports of a tunnel network and a tunnel address.
 *
 * @param {Host[]} hosts
 * @param {Map<string, any>} networks
 * @param {string} [only] tunnels of this host: of thousands of hosts there are too many
 * @returns {Tunnel[]}
 */
export function buildTunnels(hosts, networks, only = '') {
  const byNetwork = new Map();
  const known = new Map(hosts.map((host) => [host.name, host]));
  for (const host of hosts) {
    if (!host.tunnelIp) continue;
    for (const port of host.ports) {
      if (!TUNNEL_TYPES.has(networks.get(port.network_id)?.['provider:network_type'])) continue;
      if (!byNetwork.has(port.network_id)) byNetwork.set(port.network_id, new Set());
      byNetwork.get(port.network_id).add(host.name);
    }
  }
  const tunnels = new Map();
  for (const [network, members] of byNetwork) {
    if (only && !members.has(only)) continue;
    const names = [...members].sort();
    for (let i = 0; i < names.length; i += 1) {
      for (let j = i + 1; j < names.length; j += 1) {
        if (only && names[i] !== only && names[j] !== only) continue;
        const key = `${names[i]}\n${names[j]}`;
        if (!tunnels.has(key)) tunnels.set(key, newTunnel(known.get(names[i]), known.get(names[j])));
        const tunnel = tunnels.get(key);
        tunnel.networks.push(network);
        const type = networks.get(network)['provider:network_type'];
        if (!tunnel.types.includes(type)) tunnel.types.push(type);
      }
    }
  }
  return [...tunnels.values()];
}

function newTunnel(a, b) {
  const ends = [switchState(a), switchState(b)];
  const health = ['bad', 'unknown'].find((state) => ends.includes(state)) ?? 'ok';
  return { a: a.name, b: b.name, networks: [], types: [], health };
}

/** The switch carries tunnels: if its agent is late, it may well go on, and nobody knows. */
function switchState(host) {
  const agent = host.agents.find((each) => each.agent_type === 'Open vSwitch agent');
  if (!agent?.alive) return 'unknown';
  return isDown(agent) ? 'bad' : 'ok';
}
