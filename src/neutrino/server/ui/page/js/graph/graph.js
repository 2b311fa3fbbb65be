/** The topology as a drawing: nodes and edges by key, of which the painter keeps those in view. */

import { h, put, s } from '../core/dom.js';
import { icon, paths } from '../core/icons.js';
import { layout, pathOf } from './layout.js';
import { nearest } from './keyboard.js';
import { Painter, levelOf } from './painter.js';
import { Viewport } from './viewport.js';

const READABLE = 0.72; // scale
const NARROW = 600; // pixels: on a phone networks stand below each other
const EXPANDS = new Set(['project', 'group']); // a click expands them: they have no details
const TOGGLES = { network: true, external: true, router: true, heading: true, more: true, project: true, group: true };

export class Graph {
  /**
   * @param {{onSelect: (key: string) => void, onToggle: (key: string, open: boolean) => void,
   *   names: any}} options names: words for projects, networks, states and numbers
   */
  constructor({ onSelect, onToggle, names }) {
    this.onSelect = onSelect;
    this.onToggle = onToggle;
    /** @type {import('./layout.js').Picture} */
    this.picture = { nodes: [], edges: [], boxes: [], areas: [], bounds: { x: 0, y: 0, w: 0, h: 0 } };
    /** @type {Map<string, import('./layout.js').Node>} */
    this.byKey = new Map();
    this.selected = '';
    this.focused = '';
    /** Nodes that an edge connects with the selected one. @type {Set<string>} */
    this.related = new Set();
    /** @type {{keys: string[], steps: Object<string, number[]>, verdict: string} | null} */
    this.path = null;
    /** @type {Set<string>} */
    this.onPath = new Set();
    /** The part of the picture for which elements are kept. */
    this.kept = { x: 0, y: 0, w: 0, h: 0, level: -1 };
    this.stacked = innerWidth < NARROW;
    this.boxLayer = s('g', { class: 'boxes' });
    this.edgeLayer = s('g', { class: 'edges', 'aria-hidden': 'true' });
    this.nodeLayer = s('g', { class: 'nodes' });
    this.pathLayer = s('g', { class: 'path-marks', 'aria-hidden': 'true' });
    const content = s('g', { class: 'content' }, this.boxLayer, this.edgeLayer, this.nodeLayer, this.pathLayer);
    const help = 'Topology. Arrow keys move between objects, Enter opens details, Space expands or collapses, plus and minus zoom, zero fits.';
    this.svg = s('svg', { class: 'graph', role: 'group', 'aria-label': help }, content);
    this.painter = new Painter({ box: this.boxLayer, edge: this.edgeLayer, node: this.nodeLayer }, names, (item, element) => this.decorate(item, element));
    this.viewport = new Viewport(this.svg, content, () => this.moved());
    this.element = h('div', { class: 'graph-frame' }, this.svg, this.controls());
    this.svg.addEventListener('click', (event) => this.onClick(event));
    this.svg.addEventListener('keydown', (event) => this.onKey(event));
    this.svg.addEventListener('focusin', (event) => this.onFocus(event));
    // A panel that opens changes the size of the drawing as well, and moves nothing in it.
    addEventListener('resize', () => this.resized());
  }

  controls() {
    const button = (name, label, action) =>
      h('button', { type: 'button', class: 'tool', title: label, 'aria-label': label, on: { click: action } }, icon(name));
    return h('div', { class: 'graph-controls', role: 'toolbar', 'aria-label': 'Zoom' },
      button('plus', 'Zoom in', () => this.viewport.zoom(1.25)),
      button('minus', 'Zoom out', () => this.viewport.zoom(0.8)),
      button('fit', 'Fit to the window', () => this.fit()));
  }

  fit() {
    this.viewport.touched = false;
    this.viewport.fit(this.picture.bounds);
  }

  /** Fits the whole drawing if that is readable, else these nodes. */
  fitTo(keys) {
    this.fit();
    const boxes = keys.map((key) => this.byKey.get(key)).filter(Boolean);
    if (this.viewport.k >= READABLE || !boxes.length) return;
    const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
    const w = Math.max(...boxes.map((box) => box.x + box.w)) - x;
    const height = Math.max(...boxes.map((box) => box.y + box.h)) - y;
    this.viewport.touched = true;
    this.viewport.fit({ x, y, w, h: height }, 64);
  }

  /** Where a node, or the frame of a project, is on the screen. */
  placeOf(key) {
    const found = this.byKey.get(key) ?? this.picture.boxes.find((box) => box.key === key);
    const { x, y, k } = this.viewport;
    return found ? [found.x * k + x, found.y * k + y] : null;
  }

  /** The first node within the frame of a project. @param {string} key */
  firstIn(key) {
    const box = this.picture.boxes.find((each) => each.key === key);
    if (!box) return this.focused;
    const inside = (/** @type {any} */ node) => node.x >= box.x && node.y >= box.y && node.x <= box.x + box.w && node.y <= box.y + box.h;
    return this.picture.nodes.find(inside)?.key ?? this.focused;
  }

  /** After expanding or collapsing: fits the drawing if that is readable, else keeps what was clicked in its place. */
  settle(key, before) {
    if (!this.viewport.touched) {
      this.viewport.fit(this.picture.bounds);
      if (this.viewport.k >= READABLE || !before) return;
      this.viewport.k = READABLE;
    }
    const now = this.placeOf(key);
    if (before && now) this.viewport.pan(before[0] - now[0], before[1] - now[1]);
    const area = this.picture.areas.find((each) => each.key === key);
    if (area) this.viewport.reveal(area);
  }

  resized() {
    if (!this.viewport.touched) this.viewport.fit(this.picture.bounds);
  }

  /** Draws a scene. The drawing is fitted to the window until the user moves it. */
  show(scene) {
    this.picture = layout(scene, { stacked: this.stacked });
    this.byKey = new Map(this.picture.nodes.map((node) => [node.key, node]));
    if (!this.byKey.has(this.focused)) this.focused = this.picture.nodes[0]?.key ?? '';
    this.painter.set(this.picture);
    this.kept.level = -1;
    this.relate();
    if (!this.viewport.touched) this.viewport.fit(this.picture.bounds);
    else this.viewport.apply();
    this.drawPath();
  }

  /** The viewport has moved: draws what comes into view, a window's size ahead. */
  moved() {
    const { x, y, k } = this.viewport;
    const { width, height } = this.viewport.size();
    if (!this.viewport.known) return; // hidden: drawn when it is shown
    const [w, tall] = [width / k, height / k];
    const view = { x: -x / k, y: -y / k, w, h: tall };
    const level = levelOf(k);
    const { kept } = this;
    const within = view.x >= kept.x && view.y >= kept.y && view.x + w <= kept.x + kept.w && view.y + tall <= kept.y + kept.h;
    if (kept.level === level && within && kept.w < w * 4) return;
    this.kept = { x: view.x - w / 2, y: view.y - tall / 2, w: w * 2, h: tall * 2, level };
    this.svg.classList.toggle('far', level > 0);
    this.paint();
  }

  paint() {
    this.painter.show(this.kept, /** @type {0} */ (Math.max(0, this.kept.level)), new Set([this.focused, this.selected, ...this.onPath]));
  }

  /** Classes of a node or edge: selected, related, on the path, and the node that Tab reaches. @param {any} item @param {any} element */
  decorate(item, element) {
    if ('points' in item) {
      element.classList.toggle('on', Boolean(this.selected) && (item.from === this.selected || item.to === this.selected));
      return;
    }
    if (!this.byKey.has(item.key)) return; // a box
    element.classList.toggle('selected', item.key === this.selected);
    element.classList.toggle('related', this.related.has(item.key));
    element.classList.toggle('on-path', this.onPath.has(item.key));
    if (item.key === this.selected) element.setAttribute('aria-current', 'true');
    else element.removeAttribute('aria-current');
    element.setAttribute('tabindex', item.key === this.focused ? '0' : '-1');
  }

  relate() {
    this.related = new Set();
    if (!this.selected) return;
    for (const edge of this.picture.edges) {
      if (edge.from === this.selected || edge.to === this.selected) this.related.add(edge.from).add(edge.to);
    }
  }

  mark() {
    this.relate();
    this.painter.decorateAll();
  }

  select(key, { reveal = false } = {}) {
    if (key === this.selected && !reveal) return;
    this.selected = key;
    if (this.byKey.has(key)) this.focused = key;
    this.painter.now(key);
    this.mark();
    const node = this.byKey.get(key);
    if (node && reveal) {
      this.viewport.touched = true;
      this.viewport.reveal(node, { center: true });
    }
  }

  /** Keeps a node visible beside the panel that opened. */
  keepInView(key) {
    const node = this.byKey.get(key);
    if (node) this.viewport.reveal(node);
  }

  focus(key) {
    const node = this.byKey.get(key);
    if (!node) return;
    this.focused = key;
    this.viewport.reveal(node);
    const element = this.painter.now(key);
    this.mark();
    element?.focus({ preventScroll: true });
  }

  onFocus(event) {
    const key = event.target.closest?.('[data-key]')?.getAttribute('data-key');
    if (key && key !== this.focused) {
      this.focused = key;
      this.mark();
    }
  }

  onClick(event) {
    const toggle = event.target.closest('[data-toggle]')?.getAttribute('data-toggle');
    if (toggle) {
      this.toggle(toggle);
      return;
    }
    const key = event.target.closest('[data-key]')?.getAttribute('data-key');
    if (key) this.activate(key);
    else this.onSelect('');
  }

  /** @param {string} key */
  activate(key) {
    const node = this.byKey.get(key);
    if (!node) return;
    if (EXPANDS.has(node.type) || node.type === 'heading') this.toggle(key);
    else if (node.type === 'more' && node.data.open) this.onSelect(`network:${node.data.node.id}`);
    else if (node.type === 'more') this.onToggle(`network:${node.data.node.id}`, true);
    else this.onSelect(key);
  }

  toggle(key) {
    const node = this.byKey.get(key);
    if (!node) {
      this.onToggle(key, false); // the frame of an expanded project
      return;
    }
    if (!TOGGLES[node.type]) return;
    if (node.type === 'more') this.onToggle(`network:${node.data.node.id}`, !node.data.open);
    else if (node.type === 'network' || node.type === 'external') this.onToggle(key, !node.data.open);
    else this.onToggle(key, EXPANDS.has(node.type));
  }

  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const frame = event.target.closest?.('.box [data-toggle]')?.getAttribute('data-toggle');
    if (frame && (event.key === 'Enter' || event.key === ' ')) {
      event.preventDefault();
      this.onToggle(frame, false);
      return;
    }
    const key = event.target.closest?.('[data-key]')?.getAttribute('data-key') ?? this.focused;
    const actions = {
      Enter: () => this.activate(key),
      ' ': () => this.toggle(key),
      Escape: () => this.onSelect(''),
      '+': () => this.viewport.zoom(1.25),
      '=': () => this.viewport.zoom(1.25),
      '-': () => this.viewport.zoom(0.8),
      0: () => this.fit(),
      Home: () => this.focus(this.picture.nodes[0]?.key ?? ''),
      End: () => this.focus(this.picture.nodes.at(-1)?.key ?? ''),
    };
    const action = actions[event.key] ?? (event.key.startsWith('Arrow') ? () => this.step(key, event.key.slice(5).toLowerCase()) : null);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  step(key, direction) {
    const next = nearest(this.picture.nodes, key, direction);
    if (next) this.focus(next);
  }

  // --- the path of a trace ----------------------------------------------------------------------------------------------

  /**
   * @param {{keys: string[], steps: Object<string, number[]>, verdict: string} | null} path nodes in the order of the packet, and
   *   which steps of the list are at each
   */
  showPath(path) {
    this.path = path;
    this.drawPath();
  }

  drawPath() {
    const keys = (this.path?.keys ?? []).filter((key) => this.byKey.has(key));
    this.onPath = new Set(keys);
    for (const key of keys) this.painter.now(key);
    this.painter.decorateAll();
    this.svg.classList.toggle('has-path', keys.length > 0);
    put(this.pathLayer, this.pathEdges(keys), this.pathMarks(keys));
  }

  /** @param {string[]} keys */
  pathEdges(keys) {
    const steps = new Set();
    for (let at = 1; at < keys.length; at += 1) steps.add(`${keys[at - 1]}|${keys[at]}`).add(`${keys[at]}|${keys[at - 1]}`);
    if (!steps.size) return [];
    return this.picture.edges.filter(({ from, to }) => steps.has(`${from}|${to}`)).map((edge) =>
      s('path', { class: `edge ${edge.type} on-path`, 'data-from': edge.from, 'data-to': edge.to, d: pathOf(edge) }));
  }

  /** The numbers of the steps in the list, and the verdict at the last node. @param {string[]} keys */
  pathMarks(keys) {
    const verdict = this.path?.verdict ?? '';
    return [...this.onPath].map((key) => {
      const { x, y } = /** @type {import('./layout.js').Node} */ (this.byKey.get(key));
      const last = key === keys.at(-1);
      const numbers = this.path?.steps[key] ?? [];
      if (!last && !numbers.length) return null; // a network that the list has no step for
      const mark = last ? /** @type {Object<string, string>} */ ({ delivered: 'ok', dropped: 'bad' })[verdict] ?? 'unknown' : '';
      return s('g', { class: `step ${last ? `end ${verdict}` : ''}`, transform: `translate(${x} ${y})` },
        s('circle', { r: last ? 12 : 9 }),
        last ? s('g', { class: 'glyph', transform: 'translate(-7 -7) scale(.875)' }, paths(mark))
          : s('text', { y: 3.500, 'text-anchor': 'middle' }, numbers[0]));
    });
  }
}
