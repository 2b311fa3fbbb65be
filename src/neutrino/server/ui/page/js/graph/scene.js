/**
 * What of the topology is drawn, as a pure function of the topology and of what the user has expanded.
 *
 * Three levels: projects, groups (a router with its networks, or networks without a router), networks with their ports. With few
 * networks all is drawn. With many, projects and groups are single cards until they are expanded.
 *
 * @typedef {import('../data/topology.js').Topology} Topology
 * @typedef {{project?: string, expanded?: Map<string, boolean>, troubles?: import('../data/troubles.js').Troubles, onlyProblems?: boolean,
 *   projectName?: (id: string) => string}} Options
 * @typedef {{node: any, members: any[], more: number, count: number, open: boolean, toggle: boolean}} NetworkItem
 * @typedef {{key: string, kind: 'group' | 'card', router: any, title: string, networks: NetworkItem[],
 *   counts: {networks: number, routers: number, ports: number}, gateways: string[], status: string}} Group
 * @typedef {{key: string, project: string, open: boolean, counts: any, groups: Group[], gateways: string[]}} Region
 * @typedef {{externals: NetworkItem[], regions: Region[], crossings: {routerId: string, networkId: string}[],
 *   counts: {networks: number, routers: number, ports: number, drawn: number}}} Scene
 */

import { byName, compareText, sortedBy } from '../core/order.js';
import { isHaNetwork } from '../data/topology.js';
import { byTrouble, sumOf } from '../data/troubles.js';

export const FEW_NETWORKS = 32; // more are drawn as cards of projects or groups
export const FEW_MEMBERS = 6; // more ports of a network are one line until expanded
export const MOST_MEMBERS = 40; // lines of an expanded network; the rest is in its details

/**
 * @param {Topology} topology
 * @param {Options} options
 * @returns {Scene}
 */
export function buildScene(topology, { project = '', expanded = new Map(), troubles = new Map(), onlyProblems = false, projectName = (id) => id }) {
  const fails = (/** @type {string} */ key) => !onlyProblems || troubles.has(key);
  const networks = [...topology.networks.values()].filter((node) => isShown(node, project, topology) && fails(`network:${node.id}`));
  const routers = [...topology.routers.values()].filter((node) =>
    (!project || node.project === project) && (fails(`router:${node.id}`) || node.networkIds.some((id) => fails(`network:${id}`))));
  const inner = sortedBy(networks.filter((node) => !node.external), (node) => node.name, (node) => node.id);
  const externals = networks.filter((node) => node.external).sort(byName);
  const isOpen = (key, normally) => expanded.get(key) ?? normally;
  const few = inner.length <= FEW_NETWORKS;

  const primary = new Map(); // the router below which a network is drawn
  const shownRouters = new Set(routers.map((node) => node.id));
  for (const node of inner) {
    const own = node.attachments.find((each) => shownRouters.has(each.routerId));
    if (own) primary.set(node.id, own.routerId);
  }
  const item = (node) => ({ ...networkItem(node, inner.length <= FEW_NETWORKS / 2, isOpen), trouble: troubles.get(`network:${node.id}`) });
  const regions = [];
  for (const [id, { own, attached }] of byProject(inner, routers, primary, topology)) {
    const groups = [...attached].sort(([a], [b]) => byName(a, b)).map(([router, below]) => newGroup(router, below, id, troubles));
    if (own.length) groups.push(newGroup(null, own, id, troubles));
    regions.push(newRegion(id, groups));
  }
  // What fails stands first; the rest by name, not by id, so that people find it.
  regions.sort((a, b) => byTrouble(a.trouble, b.trouble) || compareText(projectName(a.project), projectName(b.project)));
  const alone = regions.length <= 1;
  let drawn = externals.length;
  for (const region of regions) {
    region.open = isOpen(region.key, few || alone);
    let left = FEW_NETWORKS;
    for (const group of region.groups) {
      left -= group.networks.length;
      group.open = isOpen(group.key, left >= 0);
      group.kind = group.open ? 'group' : 'card';
      group.items = region.open && group.open ? group.networks.map(item) : [];
      drawn += group.items.length;
    }
  }
  const crossings = inner.flatMap((node) =>
    node.attachments
      .filter((each) => shownRouters.has(each.routerId) && each.routerId !== primary.get(node.id))
      .map((each) => ({ routerId: each.routerId, networkId: node.id })),
  );
  const ports = networks.reduce(
    (sum, node) => sum + node.members.filter((each) => !project || each.port.project_id === project).length,
    0,
  );
  const counts = { networks: networks.length, routers: routers.length, ports, drawn };
  return { externals: externals.map(item), regions, crossings, counts };
}

/** With a project chosen: its networks, those that its routers use, and shared ones that its ports are on. */
function isShown(node, project, topology) {
  if (isHaNetwork(node.network)) return false; // of the instances of a router, not of a project
  if (!project || node.project === project) return true;
  if (node.attachments.some((each) => topology.routers.get(each.routerId)?.project === project)) return true;
  if (node.external) return [...topology.routers.values()].some((r) => r.project === project && r.gatewayId === node.id);
  return node.members.some((member) => member.port.project_id === project);
}

function networkItem(node, few, isOpen) {
  const count = node.members.length;
  const open = isOpen(`network:${node.id}`, few && count <= FEW_MEMBERS);
  const members = open ? node.members.slice(0, MOST_MEMBERS) : [];
  // With many networks the number on the card is enough.
  return { node, members, more: few || open ? count - members.length : 0, count, open, toggle: count > 0 };
}

function byProject(networks, routers, primary, topology) {
  const found = new Map();
  const of = (id) => {
    if (!found.has(id)) found.set(id, { own: [], attached: new Map() });
    return found.get(id);
  };
  for (const router of [...routers].sort(byName)) of(router.project).attached.set(router, []);
  for (const node of networks) {
    const router = topology.routers.get(primary.get(node.id));
    if (router) of(router.project).attached.get(router).push(node);
    else of(node.project).own.push(node);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}

function newGroup(router, networks, project, troubles) {
  const parts = [...networks.map((/** @type {any} */ node) => troubles.get(`network:${node.id}`)), router && troubles.get(`router:${router.id}`)];
  return {
    key: router ? `router:${router.id}` : `alone:${project}`,
    kind: 'group', open: true, router, networks, items: [], trouble: sumOf(parts),
    title: router ? router.name : 'No router',
    gateways: router?.gatewayId ? [router.gatewayId] : [],
    counts: {
      networks: networks.length, routers: router ? 1 : 0,
      ports: networks.reduce((sum, node) => sum + node.members.length, 0),
    },
  };
}

function newRegion(project, groups) {
  const sum = (name) => groups.reduce((total, group) => total + group.counts[name], 0);
  return {
    key: `project:${project}`, project, open: true, groups, trouble: sumOf(groups.map((/** @type {any} */ group) => group.trouble)),
    gateways: [...new Set(groups.flatMap((group) => group.gateways))],
    counts: { networks: sum('networks'), routers: sum('routers'), ports: sum('ports') },
  };
}

/** The keys that must be expanded so that an object is drawn. */
export function keysOf(topology, kind, id) {
  if (kind === 'network') {
    const node = topology.networks.get(id);
    if (!node || node.external) return [];
    const router = topology.routers.get(node.attachments[0]?.routerId);
    return [`project:${router?.project ?? node.project}`, router ? `router:${router.id}` : `alone:${node.project}`];
  }
  if (kind === 'router') {
    const node = topology.routers.get(id);
    return node ? [`project:${node.project}`] : [];
  }
  if (kind === 'port') {
    const node = [...topology.networks.values()].find((each) => each.members.some((member) => member.id === id));
    return node ? [...keysOf(topology, 'network', node.id), `network:${node.id}`] : [];
  }
  return [];
}
