/** The graph with its state: what is expanded, selected, filtered. Used by the views of topology and traces. */

import { h, patch } from '../core/dom.js';
import { count } from '../core/format.js';
import { Graph } from '../graph/graph.js';
import { buildScene, keysOf } from '../graph/scene.js';
import { empty } from './parts.js';

/** @type {import('../data/topology.js').Topology} */
const NOTHING = { networks: new Map(), routers: new Map(), projects: [] };

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
  /**
   * @param {{derived: import('../data/derived.js').Derived, onSelect: (key: string) => void,
   *   onProblems: (only: boolean) => void}} options
   */
  constructor({ derived, onSelect, onProblems }) {
    this.derived = derived;
    this.store = derived.store;
    this.expanded = new Map();
    this.loadedAt = 0;
    this.project = '';
    /** What was drawn: the same again draws nothing. @type {any[]} */
    this.drawnOf = [];
    /** @type {import('../data/topology.js').Topology | null} */
    this.topology = null;
    this.graph = new Graph({
      onSelect,
      onToggle: (key, open) => this.toggle(key, open),
      names: {
        settled: () => this.loadedAt > 0 && Date.now() - this.loadedAt > 500, // what appears later is new
        count: (kind, number, what = kind) => (this.store.complete.has(kind) ? count(number, what) : `${what}s loading`),
        project: derived.projectName, state: (kind, object) => derived.state(kind, object),
        network: (id) => this.topology?.networks.get(id)?.name ?? 'an external network',
      },
    });
    this.counts = { networks: 0, routers: 0, ports: 0 };
    this.onlyProblems = false;
    this.summary = h('p', { class: 'graph-summary', 'aria-live': 'off' });
    this.problems = h('input', { type: 'checkbox', name: 'problems', on: { change: () => onProblems(this.problems.checked) } });
    this.blank = h('div', { class: 'graph-blank', hidden: true });
    this.element = h('div', { class: 'canvas' }, h('h1', { class: 'visually-hidden' }, 'Topology'), this.graph.element, this.blank,
      h('div', { class: 'graph-top' }, this.summary, h('label', { class: 'graph-filter' }, this.problems, 'Only problems')), this.legend());
  }

  legend() {
    const entry = (kind, text) => h('li', {}, h('span', { class: `swatch k-${kind}` }), text);
    return h('ul', { class: 'legend', 'aria-label': 'Legend' },
      entry('external', 'External network'), entry('router', 'Router'), entry('network', 'Network'), entry('port', 'Port'));
  }

  /** @param {string} project @param {boolean} [onlyProblems] */
  update(project, onlyProblems = false) {
    if (onlyProblems !== this.onlyProblems) this.graph.viewport.touched = false;
    this.onlyProblems = onlyProblems;
    this.problems.checked = onlyProblems;
    if (project !== this.project) this.graph.viewport.touched = false;
    this.topology = this.derived.topology;
    this.project = project;
    if (this.store.loaded) this.loadedAt ||= Date.now();
    const from = [this.topology, this.derived.troubles, project, onlyProblems, [...this.store.complete].join(' ')];
    if (from.every((each, at) => each === this.drawnOf[at])) this.summarize();
    else this.draw();
    this.drawnOf = from;
  }

  /** Before that, what is known is drawn wrong: routers without networks, networks without a router. */
  isReady() {
    return ['network', 'subnet', 'router', 'floatingip'].every((kind) => this.store.complete.has(kind));
  }

  draw() {
    if (!this.topology) return;
    const scene = buildScene(this.isReady() ? this.topology : NOTHING, {
      project: this.project, expanded: this.expanded, troubles: this.derived.troubles, onlyProblems: this.onlyProblems,
      projectName: this.derived.projectName,
    });
    this.graph.show(scene);
    const nothing = this.graph.picture.nodes.length === 0;
    this.blank.hidden = !nothing;
    if (nothing) {
      patch(this.blank, this.isReady() && this.onlyProblems ? empty('No problems', 'No network and no router fails or has a warning.') : this.isReady()
        ? empty('No networks yet', this.project ? 'This project has no networks that you can see.' : 'A network appears here as soon as it is created.',
          h('pre', {}, 'openstack network create blue\nopenstack subnet create --network blue --subnet-range 10.0.0.0/24 blue-v4'))
        : empty('Loading the topology…', ''));
    }
    this.counts = scene.counts;
    this.summarize();
  }

  /** How many of each there are, or how many were read so far. */
  summarize() {
    const { networks, routers, ports } = this.counts;
    const known = (/** @type {string} */ kind, /** @type {number} */ number) => (this.store.complete.has(kind) ? count(number, kind)
      : `${kind}s loading${this.store.progress.has(kind) ? ` (${count(this.store.progress.get(kind) ?? 0, 'read', 'read')})` : '…'}`);
    this.summary.textContent = !this.graph.picture.nodes.length && this.isReady() ? '' : [known('network', networks), known('router', routers), known('port', ports)].join(' · ');
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
    if (this.graph.byKey.has(key)) return;
    const at = key.indexOf(':');
    if (!this.topology) return;
    const wanted = keysOf(this.topology, key.slice(0, at), key.slice(at + 1));
    for (const each of wanted) this.expanded.set(each, true);
    if (wanted.length) this.draw();
  }

  /** @param {{keys: string[], steps: Object<string, number[]>, verdict: string} | null} path */
  showPath(path) {
    for (const key of path?.keys ?? []) this.expandFor(key);
    this.graph.showPath(path);
    if (path?.keys.length) this.graph.fitTo(path.keys);
  }
}
