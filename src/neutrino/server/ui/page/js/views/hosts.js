/** Hosts: their agents, ports and the tunnels between them. */

import { h, patch, s } from '../core/dom.js';
import { clean, count } from '../core/format.js';
import { linkTo } from '../core/hash.js';
import { icon, paths } from '../core/icons.js';
import { agentHealth, hostWord } from '../data/hosts.js';
import { ring } from '../graph/mesh.js';
import { data, empty, mark, state } from './parts.js';

export const MESH = 16; // more hosts are a table: a picture of their tunnels is not readable
const ROLES = { 'Open vSwitch agent': 'L2', 'DHCP agent': 'DHCP', 'L3 agent': 'L3', 'Metadata agent': 'Metadata', 'NIC Switch agent': 'SR-IOV' };
const TUNNELS = { ok: '', bad: ', the dataplane of one end is down', unknown: ', not known: the agent of one end is late' };

export class HostsView {
  constructor() {
    this.summary = h('p', { class: 'muted', role: 'status' });
    this.body = h('div', {});
    this.element = h(
      'div', { class: 'page' }, h('header', { class: 'page-head' }, h('h1', {}, 'Hosts'), this.summary),
      this.body,
    );
  }

  /**
   * @param {import('../data/derived.js').Derived} derived
   * @param {{hidden: string, loaded: boolean, selected: string}} options
   */
  update(derived, { hidden, loaded, selected }) {
    const { hosts } = derived;
    if (!loaded) {
      patch(this.body, empty('Loading…', ''));
      return;
    }
    if (hidden) {
      this.summary.textContent = '';
      patch(this.body, empty('Hosts are not visible to you', `Agents and the hosts of ports are ${hidden}.`));
      return;
    }
    if (!hosts.length) {
      patch(
        this.body,
        empty(
          'No host has reported yet', 'A host appears when its agent connects to the feed.',
          h('pre', {}, 'neutrino agent --config-file /etc/neutrino/agent.conf'),
        ),
      );
      return;
    }
    const { tunnels } = derived;
    const failing = hosts.filter((host) => host.health !== 'ok').length;
    this.summary.textContent = `${count(hosts.length, 'host')}, ${failing ? `${failing} with problems` : 'all healthy'}`;
    patch(this.body,
      hosts.length > 1 ? this.mesh(hosts, tunnels, selected) : null,
      h('ul', { class: 'host-cards', 'aria-label': 'Hosts' }, hosts.map((host) => this.card(host, tunnels, selected))));
  }

  mesh(hosts, tunnels, selected) {
    const size = { width: 880, height: hosts.length === 2 ? 120 : hosts.length < 7 ? 260 : 360 };
    const places = ring(hosts.map((host) => host.name), size);
    const placeOf = (/** @type {string} */ name) => places.get(name) ?? { x: 0, y: 0 };
    const lines = tunnels.map((tunnel) => {
      const [a, b] = [placeOf(tunnel.a), placeOf(tunnel.b)];
      const on = selected === tunnel.a || selected === tunnel.b;
      const label = `Tunnel ${tunnel.a} to ${tunnel.b}: ${tunnel.types.join(', ')}, ${count(tunnel.networks.length, 'network')}${TUNNELS[tunnel.health]}`;
      const [x, y] = [(a.x + b.x) / 2, (a.y + b.y) / 2];
      return s('g', { 'data-key': `${tunnel.a} ${tunnel.b}`, class: `tunnel is-${tunnel.health}${on ? ' on' : ''}`, role: 'img', 'aria-label': label }, s('title', {}, label),
        s('line', { x1: a.x, y1: a.y, x2: b.x, y2: b.y }),
        s('g', { transform: `translate(${x} ${y})` }, s('circle', { r: 11 }),
          tunnel.health !== 'ok' ? s('g', { class: 'glyph', transform: 'translate(-6 -6) scale(.75)' }, paths(tunnel.health)) : s('text', { y: 4, 'text-anchor': 'middle' }, tunnel.networks.length)));
    });
    const nodes = hosts.map((host) => {
      const { x, y } = placeOf(host.name);
      const name = clean(host.name);
      const label = `Host ${name}, ${hostWord(host)}, ${count(host.ports.length, 'port')}`;
      return s('a', { href: linkTo('host', host.name), class: `host-node is-${host.health}${host.name === selected ? ' on' : ''}`, 'aria-label': label, transform: `translate(${x} ${y})`, 'data-key': host.name },
        s('title', {}, label),
        s('rect', { x: -78, y: -24, width: 156, height: 48, rx: 8 }),
        s('g', { class: 'glyph kind', transform: 'translate(-66 -9) scale(1.125)' }, paths('host')),
        s('text', { x: -40, y: -3, class: 't-name' }, name.length > 14 ? `${name.slice(0, 13)}…` : name),
        s('text', { x: -40, y: 14, class: 't-text minor' }, host.tunnelIp || 'no tunnels'),
        s('g', { class: `glyph status-${host.health}`, transform: 'translate(56 -18) scale(.8)' }, paths(host.health)));
    });
    return h('figure', { class: 'mesh', 'data-key': 'mesh' },
      s(
        'svg',
        { viewBox: `0 0 ${size.width} ${size.height}`, role: 'group', 'aria-label': 'Tunnels between hosts' },
        s('g', {}, lines),
        s('g', {}, nodes),
      ),
      h('figcaption', {}, tunnels.length ? 'Lines are tunnels between hosts that have ports of the same tunnel networks; the number is how many networks.' : 'No tunnel network has ports on two hosts, so no tunnel carries traffic.'));
  }

  card(host, tunnels, selected) {
    const byStatus = new Map();
    for (const port of host.ports) byStatus.set(port.status, (byStatus.get(port.status) ?? 0) + 1);
    const peers = tunnels.filter((tunnel) => tunnel.a === host.name || tunnel.b === host.name);
    const broken = peers.filter((tunnel) => tunnel.health === 'bad').length;
    const unknown = peers.filter((tunnel) => tunnel.health === 'unknown').length;
    const ports = [
      ['ACTIVE', 'ok'], ['DOWN', 'warn'], ['ERROR', 'bad'],
      ['BUILD', 'unknown'],
    ].filter(([status]) => byStatus.get(status));
    return h('li', { 'data-key': host.name, class: `host-card is-${host.health}${host.name === selected ? ' on' : ''}` },
      h(
        'div', { class: 'host-head' }, icon('host'),
        h('a', { href: linkTo('host', host.name), class: 'strong' }, data(host.name)),
        state(host.health, hostWord(host)),
      ),
      h('ul', { class: 'chips', 'aria-label': 'Agents' }, host.agents.map((agent) => {
        const health = agentHealth(agent);
        const words = { ok: 'alive', bad: agent.alive ? 'dataplane down' : 'late', warn: 'reports problems or is behind', off: 'disabled' }[health];
        return h(
          'li', {},
          h(
            'a',
            { class: `chip is-${health}`, href: linkTo('agent', agent.id), title: `${agent.agent_type}: ${words}` },
            icon(health),
            ROLES[agent.agent_type] ?? agent.agent_type,
            h('span', { class: 'visually-hidden' }, `: ${words}`),
          ),
        );
      }), host.agents.length ? null : h('li', { class: 'muted' }, 'no agent reports')),
      h('p', { class: 'host-facts' },
        host.ports.length ? ports.map(([status, name]) => h(
          'span', {}, mark(name, status),
          ` ${count(byStatus.get(status), 'port')} ${status.toLowerCase()}`,
        )) : h('span', { class: 'muted' }, 'no ports'),
        h('span', { class: 'muted' }, peers.length ? `${count(peers.length, 'tunnel')}${broken ? `, ${broken} broken` : ''}${unknown ? `, ${unknown} not known` : ''}` : 'no tunnels in use')));
  }
}
