/** The sections of the side panel, by the kind of the object. */

import { h } from '../core/dom.js';
import { ago, clean, count, group, nameOf, parseTime, shortId, shown } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { agentHealth, hostWord, reportedProblems } from '../data/hosts.js';
import { samplesOf } from '../data/rates.js';
import { bindingOf } from '../data/states.js';
import { portLabel } from '../data/topology.js';
import { copyable, data, facts, link, mark, notice, section, state } from './parts.js';
import { sparkline } from './sparkline.js';
import { usageBar } from './usage_bar.js';
import { longList } from './virtual.js';

/** @typedef {import('../data/derived.js').Derived} Context */

/**
 * @param {string} kind
 * @param {any} object
 * @param {Context} context
 * @param {any} [more] what was read for this object: the ports of a security group, where a router runs, the routers of a host
 */
export function describe(kind, object, context, more = null) {
  return Object.hasOwn(DESCRIPTIONS, kind) ? DESCRIPTIONS[kind](object, context, more) : [];
}

/** @param {string} kind @param {any} object @param {Context} context */
function status(kind, object, context) {
  const [name, word] = context.state(kind, object);
  return state(name, word.charAt(0).toUpperCase() + word.slice(1));
}

function common(object, { projectName }) {
  return [
    ['ID', copyable(object.id)],
    ['Project', object.project_id ? data(projectName(object.project_id)) : null],
    ['Description', object.description ? data(object.description) : null],
  ];
}

/**
 * @template T
 * @param {string} label
 * @param {T[]} items
 * @param {(item: T) => any} line
 * @param {(item: any) => string} [keyOf]
 */
function list(label, items, line, keyOf = (item) => item.id) {
  return longList(label, items, line, keyOf);
}

/** Rates of a port or router, if the server has them. @param {any} more @param {string} name @param {string} id */
function rates(more, name, id) {
  const found = more?.rates?.rates?.find((/** @type {any} */ each) => each[name] === id);
  if (!found?.samples.length) return null;
  const part = found.ports_left ? state('warn', `without ${count(found.ports_left, 'port')}: the sum is of a part`) : null;
  return section('Rates', sparkline(samplesOf(found.samples, more.rates.columns)), part);
}

/** @param {Context} context @returns {(port: any) => any[]} */
function portLine(context) {
  return (port) => [
    mark(...context.state('port', port)), link('port', port.id, portLabel(port)),
    h('span', { class: 'muted mono end' }, port.fixed_ips?.[0]?.ip_address ?? ''),
  ];
}

const OWNERS = {
  'network:dhcp': 'DHCP', 'network:router_gateway': 'router gateway', 'network:floatingip': 'floating IP',
  'network:router_centralized_snat': 'SNAT', 'network:ha_router_interface': 'HA', 'network:distributed': 'distributed DHCP',
  'network:floatingip_agent_gateway': 'floating IP gateway',
};

/** @type {Object<string, (object: any, context: Context, more: any) => any[]>} */
const DESCRIPTIONS = {
  network(network, context) {
    const node = context.topology.networks.get(network.id);
    if (!node) return [];
    const type = network['provider:network_type'];
    const segment = network['provider:segmentation_id'];
    const physical = network['provider:physical_network'];
    const services = node.services.filter((port) => port.device_owner !== 'network:floatingip');
    return [
      facts([
        ['Status', status('network', network, context)],
        ['Type', type ? `${type}${segment ? ` ${segment}` : ''}${physical ? ` on ${physical}` : ''}` : null],
        ['MTU', network.mtu],
        ['Use', [network['router:external'] && 'external', network.shared && 'shared'].filter(Boolean).join(', ') || null],
        ...common(network, context),
      ]),
      section(`Subnets (${node.subnets.length})`, node.subnets.length ? list('Subnets', node.subnets, (subnet) => {
        const usage = context.usage.get(subnet.id);
        return h(
          'div', { class: 'stack' },
          link('subnet', subnet.id, clean(subnet.name) ? `${clean(subnet.name)} · ${subnet.cidr}` : subnet.cidr),
          usage ? usageBar(usage) : null,
        );
      }) : h('p', { class: 'muted' }, 'Ports of this network get no addresses.')),
      node.attachments.length ? section(`Routers (${node.attachments.length})`, list('Routers', node.attachments, ({ routerId, ips }) =>
        [link('router', routerId, context.topology.routers.get(routerId)?.name), h('span', { class: 'muted mono end' }, ips.join(', '))], (each) => each.routerId)) : null,
      section(`Ports (${node.members.length})`, node.members.length ? list('Ports', node.members.map((/** @type {any} */ member) => member.port), portLine(context))
        : h('p', { class: 'muted' }, 'No instance is on this network.')),
      node.floatingIps.length ? section(`Floating IPs (${node.floatingIps.length})`, list('Floating IPs', node.floatingIps, (floatingIp) =>
        [link('floatingip', floatingIp.id, floatingIp.floating_ip_address), h('span', { class: 'muted end' }, floatingIp.port_id ? floatingIp.fixed_ip_address : 'not associated')])) : null,
      services.length ? section('Service ports', list('Service ports', services, (port) =>
        [mark(...context.state('port', port)), link(
          'port', port.id, OWNERS[port.device_owner] ?? port.device_owner.replace('network:', ''),
        ),
          h('span', { class: 'muted mono end' }, port.fixed_ips?.[0]?.ip_address ?? '')])) : null,
    ];
  },

  subnet(subnet, context) {
    const network = context.store.get('network', subnet.network_id);
    const usage = context.usage.get(subnet.id);
    return [
      usage ? usageBar(usage, true) : null,
      facts([
        ['CIDR', h('code', {}, subnet.cidr)],
        ['Network', network ? link('network', network.id, nameOf(network)) : null],
        ['Gateway', subnet.gateway_ip ? h('code', {}, subnet.gateway_ip) : 'none'],
        ['DHCP', subnet.enable_dhcp === undefined ? null : subnet.enable_dhcp ? 'yes' : 'no'],
        ['IPv6 mode', subnet.ipv6_address_mode || subnet.ipv6_ra_mode],
        [
          'Allocation pools',
          (subnet.allocation_pools ?? []).map((pool) => h('div', { class: 'mono' }, `${pool.start} – ${pool.end}`)),
        ],
        ['DNS servers', subnet.dns_nameservers?.length ? subnet.dns_nameservers.join(', ') : null],
        [
          'Host routes',
          subnet.host_routes?.length ? subnet.host_routes.map((route) => h(
            'div', { class: 'mono' }, `${route.destination} via ${route.nexthop}`,
          )) : null,
        ],
        ...common(subnet, context),
      ]),
    ];
  },

  router(router, context, more) {
    const instances = more?.instances ?? [];
    const node = context.topology.routers.get(router.id);
    if (!node) return [];
    const gateway = router.external_gateway_info;
    const networks = node.networkIds.flatMap((id) => context.topology.networks.get(id) ?? []);
    const floating = [...context.store.tables.floatingip.values()].filter((each) => each.router_id === router.id);
    return [
      facts([
        ['Status', status('router', router, context)],
        [
          'Kind',
          [
            router.ha && 'highly available', router.distributed && 'distributed',
          ].filter(Boolean).join(', ') || 'centralized',
        ],
        [
          'Gateway',
          gateway?.network_id ? [
            link('network', gateway.network_id, context.topology.networks.get(gateway.network_id)?.name), ' ',
            h('span', { class: 'mono' }, node.gatewayIps.join(', ')),
          ] : 'none',
        ],
        ['SNAT', gateway?.network_id && 'enable_snat' in gateway ? (gateway.enable_snat ? 'yes' : 'no') : null],
        ...common(router, context),
      ]),
      rates(more, 'router_id', router.id),
      more?.instances ? section(`Runs on (${instances.length})`, instances.length ? list('Hosts of the router', instances, (each) => [
        mark(!each.alive ? 'unknown' : each.state === 'active' ? 'ok' : 'off', each.state), link('host', each.host, each.host),
        h('span', { class: 'muted end' }, placedWords(each)),
      ], (each) => each.host) : h('p', { class: 'muted' }, 'No host: it is scheduled to no L3 agent.')) : null,
      section(`Networks (${networks.length})`, networks.length ? list('Networks', networks, (network) => {
        const own = network.attachments.find((each) => each.routerId === router.id);
        return [link('network', network.id, network.name), h('span', { class: 'muted mono end' }, own?.ips.join(', ') ?? '')];
      }) : h('p', { class: 'muted' }, 'The router has no interface.')),
      router.routes?.length ? section(
        'Static routes',
        list('Static routes', router.routes, (route) => h('span', { class: 'mono' }, `${route.destination} via ${route.nexthop}`), (route) => `${route.destination} ${route.nexthop}`),
      ) : null,
      floating.length ? section(`Floating IPs (${floating.length})`, list('Floating IPs', floating, (each) =>
        [link('floatingip', each.id, each.floating_ip_address), h('span', { class: 'muted mono end' }, each.fixed_ip_address ?? '')])) : null,
    ];
  },

  port(port, context, more) {
    const { store } = context;
    const network = store.get('network', port.network_id);
    const router = store.get('router', port.device_id);
    const host = port['binding:host_id'];
    const floating = [...store.tables.floatingip.values()].filter((each) => each.port_id === port.id);
    const siblings = port.device_id ? [...store.tables.port.values()].filter((each) => each.device_id === port.device_id && each.id !== port.id) : [];
    const groups = port.security_groups ?? [];
    return [
      h('div', { class: 'actions' },
        h(
          'a', { class: 'button', href: formatPlace({ view: 'trace', params: { from: port.id } }) },
          icon('trace'),
          'Trace from here',
        ),
        h('a', { class: 'button', href: formatPlace({ view: 'trace', params: { to: port.id } }) }, icon('trace'), 'Trace to here')),
      bindingOf(port) === 'failed' ? notice(
        'bad', `No driver could bind this port on ${host || 'its host'}.`,
      ) : null,
      facts([
        ['Status', status('port', port, context)],
        ['Network', network ? link('network', network.id, nameOf(network)) : shortId(port.network_id)],
        [
          'Addresses',
          port.fixed_ips?.length ? port.fixed_ips.map((fixed) => h(
            'div', {}, h('code', {}, fixed.ip_address),
            ' ',
            link('subnet', fixed.subnet_id, store.get('subnet', fixed.subnet_id)?.cidr),
          )) : 'none',
        ],
        [
          'Floating IPs',
          floating.length ? floating.map((each) => h(
            'div', {}, link('floatingip', each.id, each.floating_ip_address),
          )) : null,
        ],
        ['MAC address', h('code', {}, port.mac_address)],
        ['Host', host ? link('host', host, host) : 'binding:host_id' in port ? 'not bound' : null],
        ['Owner', router ? link('router', router.id, nameOf(router)) : port.device_owner ? data(port.device_owner) : null],
        ['Device', !router && port.device_id ? copyable(port.device_id) : null],
        ['VIF type', port['binding:vif_type']],
        ['Port security', port.port_security_enabled === undefined ? null : port.port_security_enabled ? 'on' : 'off'],
        [
          'Security groups',
          groups.length ? groups.map((id) => h(
            'div', {},
            link('security_group', id, store.get('security_group', id) ? nameOf(store.get('security_group', id)) : ''),
          )) : null,
        ],
        [
          'Allowed address pairs',
          port.allowed_address_pairs?.length ? port.allowed_address_pairs.map((pair) => h('div', { class: 'mono' }, pair.ip_address)) : null,
        ],
        ...common(port, context),
      ]),
      rates(more, 'port_id', port.id),
      siblings.length && !router ? section('Other ports of the instance', list('Other ports', siblings, portLine(context))) : null,
    ];
  },

  floatingip(floatingIp, context) {
    const port = context.store.get('port', floatingIp.port_id);
    const router = context.store.get('router', floatingIp.router_id);
    const network = context.store.get('network', floatingIp.floating_network_id);
    return [facts([
      ['Status', status('floatingip', floatingIp, context)],
      ['Address', h('code', {}, floatingIp.floating_ip_address)],
      ['Fixed address', floatingIp.fixed_ip_address ? h('code', {}, floatingIp.fixed_ip_address) : 'not associated'],
      ['Port', port ? link('port', port.id, portLabel(port)) : null],
      ['Router', router ? link('router', router.id, nameOf(router)) : null],
      ['External network', network ? link('network', network.id, nameOf(network)) : null],
      ...common(floatingIp, context),
    ])];
  },

  security_group(securityGroup, context, more) {
    const ports = more?.ports;
    if (!ports) return [facts(common(securityGroup, context))];
    return [facts(common(securityGroup, context)),
      section(`Ports (${ports.length})`, ports.length ? list('Ports', ports, portLine(context)) : h('p', { class: 'muted' }, 'No port has this group.'))];
  },

  agent(agent) {
    const own = agent.configurations ?? {};
    const heartbeat = parseTime(agent.heartbeat_timestamp);
    return [
      reportedProblems(agent).map(([name, reason]) => notice('warn', h('strong', {}, shortId(name)), `: ${clean(reason)}`)),
      facts([
        ['State', state(agentHealth(agent), agent.alive ? 'Alive' : 'Late')],
        ['Host', link('host', agent.host, agent.host)],
        ['Last report', heartbeat ? ago(Date.now() - heartbeat) : null],
        ['Started', agent.started_at ? `${agent.started_at} UTC` : null],
        ['Enabled', agent.admin_state_up ? 'yes' : 'no'],
        ['Dataplane', own.dataplane ? data(own.dataplane) : null],
        ['Changes behind', own.feed_behind ?? null],
        ['Last repair', own.last_repair ? data(shown(own.last_repair)) : null],
        ['Zone', agent.availability_zone],
        ['ID', copyable(agent.id)],
      ]),
      h('details', { class: 'fold' }, h('summary', {}, 'Configuration'), h('table', { class: 'attributes' }, h('tbody', {},
        Object.keys(own).sort().map((name) => h('tr', {}, h('th', { scope: 'row' }, clean(name)), h('td', {}, data(shown(own[name])))))))),
    ];
  },

  host(host, context, more) {
    const measured = more?.host?.tunnels;
    const peers = measured ?? context.tunnelsOf(host.name);
    const rateOf = (/** @type {string} */ address) => more?.rates?.tunnels?.find((/** @type {any} */ each) => each.address === address)?.samples ?? [];
    const members = host.ports.filter((/** @type {any} */ port) => !(port.device_owner ?? '').startsWith('network:'));
    const others = host.ports.length - members.length;
    const networks = [...new Set(host.ports.map((/** @type {any} */ port) => port.network_id))].flatMap((id) => context.topology.networks.get(id) ?? []);
    const reports = host.agents.flatMap((/** @type {any} */ agent) => reportedProblems(agent).map(([name, reason]) => ({ agent, name, reason })));
    const behind = host.agents.reduce((/** @type {number} */ most, /** @type {any} */ agent) => Math.max(most, Number(agent.configurations?.feed_behind) || 0), 0);
    const repair = host.agents.map((/** @type {any} */ agent) => agent.configurations?.last_repair).find(Boolean);
    const routers = more?.routers ?? [];
    return [
      host.agents.length ? null : notice('warn', 'No agent of this host reports, but ports are bound to it.'),
      reports.map(({ agent, name, reason }) => notice('warn', h('strong', {}, shortId(name)), ` (${clean(agent.agent_type)}): ${clean(reason)}`)),
      facts([
        ['State', state(host.health, hostWord(host))],
        ['Changes behind', host.agents.length ? group(behind) : null],
        ['Last repair', repair ? data(shown(repair)) : null],
        ['Tunnel address', host.tunnelIp ? h('code', {}, host.tunnelIp) : 'none'],
        ['Tunnel types', host.tunnelTypes.join(', ') || null],
        ['Zone', host.zone || null],
      ]),
      section(`Agents (${host.agents.length})`, list('Agents', host.agents, (agent) =>
        [mark(agentHealth(agent), agent.alive ? 'alive' : 'late'), link('agent', agent.id, agent.agent_type)])),
      routers.length ? section(`Routers (${routers.length})`, list('Routers', routers, (router) => [
        link('router', router.id, clean(router.name)),
        h('span', { class: 'muted end' }, placedWords(router.instances.find((/** @type {any} */ each) => each.host === host.name))),
      ])) : null,
      measured ? section(`Tunnels (${more.host.tunnels_total ?? measured.length})`, measured.length ? list('Tunnels', measured, (tunnel) => [
        mark({ up: 'ok', down: 'bad' }[/** @type {'up'} */ (tunnel.state)] ?? 'unknown', `${tunnel.state} ${clean(tunnel.reason)}`),
        h('div', { class: 'stack' }, link('host', tunnel.host, tunnel.host), tunnel.reason && tunnel.state !== 'up' ? h('p', { class: 'muted' }, clean(tunnel.reason)) : null,
          rateOf(tunnel.address).length ? sparkline(samplesOf(rateOf(tunnel.address), more.rates.columns)) : null),
        h('span', { class: 'muted end' }, (tunnel.types ?? []).join(', ')),
      ], (tunnel) => tunnel.host) : h('p', { class: 'muted' }, 'No tunnel network has ports here and on another host.'))
      : section(`Tunnels (${peers.length})`, peers.length ? list('Tunnels', peers, (tunnel) => {
        const other = tunnel.a === host.name ? tunnel.b : tunnel.a;
        return [
          mark(tunnel.health, tunnel.health), link('host', other, other),
          h('span', { class: 'muted end' }, `${tunnel.types.join(', ')} · ${count(tunnel.networks.length, 'network')}`),
        ];
      }, (tunnel) => `${tunnel.a} ${tunnel.b}`) : h('p', { class: 'muted' }, 'No tunnel network has ports here and on another host.')),
      networks.length ? section(`Networks (${networks.length})`, list('Networks', networks, (node) => [mark(...context.state('network', node.network)), link('network', node.id, node.name)])) : null,
      section(`Ports of instances (${members.length})`, members.length ? list('Ports', members, portLine(context)) : h('p', { class: 'muted' }, 'None.'),
        others ? h('p', { class: 'muted' }, `And ${count(others, 'service port')} of routers and DHCP.`) : null),
    ];
  },
};

/** An instance of a router on a host: active, standby, SNAT. @param {any} instance */
function placedWords(instance) {
  if (!instance) return '';
  const roles = instance.roles.filter((/** @type {string} */ role) => role !== 'router').map((/** @type {string} */ role) => (role === 'snat' ? 'SNAT' : role));
  return [instance.state, ...roles, instance.alive ? '' : 'its agent is late', instance.admin_state_up === false ? 'its agent is disabled' : ''].filter(Boolean).join(', ');
}
