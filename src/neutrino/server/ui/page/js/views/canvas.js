/** The graph with its state: what is expanded, selected, filtered. Used by the views of topology and traces. */

import { h, put } from '../core/dom.js';
import { count } from '../core/format.js';
import { Graph } from '../graph/graph.js';
import { buildScene, keysOf } from '../graph/scene.js';
import { empty } from './parts.js';

/** Kinds that are no nodes of the graph: the node that stands for an object. */
export function nodeKeyOf(store, kind, id) {
  if (kind === 'subnet') return `network:${store.get('subnet', id)?.network_id ?? ''}`;
  if (kind === 'floatingip') {
    const floatingIp = store.get('floatingip', id);
    return floatingIp?.port_id ? `port:${floatingIp.port_id}` : `network:${floatingIp?.floating_network_id ?? ''}`;
  }
  if (kind === 'port') {
    const port = store.get('port', id);
    // Ports of routers and DHCP agents are not drawn themselves.
    if (port && /^network:.*(router|interface|gateway|snat)/.test(port.device_owner ?? '') && store.get('router', port.device_id)) {
      return `router:${port.device_id}`;
    }
    if (port && (port.device_owner ?? '').startsWith('network:')) return `network:${port.network_id}`;
  }
  return ['network', 'router', 'port'].includes(kind) ? `${kind}:${id}` : '';
}

export class Canvas {
  /** @param {{store: any, onSelect: (key: string) => void, projectName: (id: string) => string}} options */
  constructor({ store, onSelect, projectName }) {
    this.store = store;
    this.expanded = new Map();
    this.project = '';
    this.topology = null;
    this.graph = new Graph({
      onSelect,
      onToggle: (key, open) => this.toggle(key, open),
      names: {
        settled: () => Date.now() - this.loadedAt > 500, // what appears later is new
        project: projectName, network: (id) => this.topology?.networks.get(id)?.name ?? 'an external network',
      },
    });
    this.summary = h('p', { class: 'graph-summary', 'aria-live': 'off' });
    this.blank = h('div', { class: 'graph-blank', hidden: true });
    this.element = h('div', { class: 'canvas' }, this.graph.element, this.blank, this.summary, this.legend());
  }

  legend() {
    const entry = (kind, text) => h('li', {}, h('span', { class: `swatch k-${kind}` }), text);
    return h('ul', { class: 'legend', 'aria-label': 'Legend' },
      entry('external', 'External network'), entry('router', 'Router'), entry('network', 'Network'), entry('port', 'Port'));
  }

  /** @param {import('../data/topology.js').Topology} topology */
  update(topology, project) {
    if (project !== this.project) this.graph.viewport.touched = false;
    this.topology = topology;
    this.project = project;
    if (this.store.loaded) this.loadedAt ??= Date.now();
    this.draw();
  }

  draw() {
    if (!this.topology) return;
    const scene = buildScene(this.topology, { project: this.project, expanded: this.expanded });
    this.graph.show(scene);
    const nothing = this.graph.picture.nodes.length === 0;
    this.blank.hidden = !nothing;
    if (nothing) {
      put(this.blank, this.store.loaded
        ? empty('No networks yet', this.project ? 'This project has no networks that you can see.' : 'A network appears here as soon as it is created.',
          h('pre', {}, 'openstack network create blue\nopenstack subnet create --network blue --subnet-range 10.0.0.0/24 blue-v4'))
        : empty('Loading the topology…', ''));
    }
    const { networks, routers, ports } = scene.counts;
    this.summary.textContent = nothing ? '' : `${count(networks, 'network')} · ${count(routers, 'router')} · ${count(ports, 'port')}`;
  }

  /** Expands or collapses. What was clicked stays where it is, unless all of the drawing can be shown readably. */
  toggle(key, open) {
    const { graph } = this;
    const focused = graph.svg.contains(document.activeElement);
    const before = graph.placeOf(key);
    this.expanded.set(key, open);
    this.draw();
    graph.settle(key, before);
    if (focused) graph.focus(graph.byKey.has(key) ? key : graph.firstIn(key));
  }

  /** Selects the node that stands for an object, expanding what hides it. */
  select(kind, id, { reveal = false } = {}) {
    const key = kind ? nodeKeyOf(this.store, kind, id) : '';
    if (key && this.topology) this.expandFor(key);
    this.graph.select(key, { reveal: reveal && key !== this.graph.selected });
  }

  expandFor(key) {
    if (this.graph.byKey?.has(key)) return;
    const at = key.indexOf(':');
    const wanted = keysOf(this.topology, key.slice(0, at), key.slice(at + 1));
    for (const each of wanted) this.expanded.set(each, true);
    if (wanted.length) this.draw();
  }

  /** @param {{keys: string[], verdict: string} | null} path */
  showPath(path) {
    for (const key of path?.keys ?? []) this.expandFor(key);
    this.graph.showPath(path);
    if (path?.keys.length) this.graph.fitTo(path.keys);
  }
}
