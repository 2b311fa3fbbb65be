/** The topology as a drawing: nodes and edges by key, so that an update changes only what differs. */

import { h, put, s } from '../core/dom.js';
import { count } from '../core/format.js';
import { icon, paths } from '../core/icons.js';
import { CARDS } from './cards.js';
import { layout, pathOf } from './layout.js';
import { nearest } from './keyboard.js';
import { Viewport } from './viewport.js';

const READABLE = 0.72; // scale
const NARROW = 600; // pixels: on a phone networks stand below each other
const EXPANDS = new Set(['project', 'group']); // a click expands them: they have no details
const TOGGLES = { network: true, external: true, router: true, heading: true, more: true, project: true, group: true };

export class Graph {
  /**
   * @param {{onSelect: (key: string) => void, onToggle: (key: string, open: boolean) => void,
   *   names: {project: (id: string) => string, network: (id: string) => string}}} options
   */
  constructor({ onSelect, onToggle, names }) {
    Object.assign(this, { onSelect, onToggle, names });
    this.drawn = new Map();
    this.picture = { nodes: [], edges: [], boxes: [], areas: [], bounds: { x: 0, y: 0, w: 0, h: 0 } };
    this.selected = '';
    this.focused = '';
    this.path = null;
    this.stacked = innerWidth < NARROW;
    this.boxLayer = s('g', { class: 'boxes' });
    this.edgeLayer = s('g', { class: 'edges', 'aria-hidden': 'true' });
    this.nodeLayer = s('g', { class: 'nodes' });
    this.pathLayer = s('g', { class: 'path-marks', 'aria-hidden': 'true' });
    const content = s('g', { class: 'content' }, this.boxLayer, this.edgeLayer, this.nodeLayer, this.pathLayer);
    const help = 'Topology. Arrow keys move between objects, Enter opens details, Space expands or collapses, plus and minus zoom, zero fits.';
    this.svg = s('svg', { class: 'graph', role: 'group', 'aria-label': help }, content);
    this.viewport = new Viewport(this.svg, content);
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
    const boxes = keys.map((key) => this.byKey?.get(key)).filter(Boolean);
    if (this.viewport.k >= READABLE || !boxes.length) return;
    const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
    const w = Math.max(...boxes.map((box) => box.x + box.w)) - x;
    const height = Math.max(...boxes.map((box) => box.y + box.h)) - y;
    this.viewport.touched = true;
    this.viewport.fit({ x, y, w, h: height }, 64);
  }

  /** Where a node, or the frame of a project, is on the screen. */
  placeOf(key) {
    const found = this.byKey?.get(key) ?? this.picture.boxes.find((box) => box.key === key);
    const { x, y, k } = this.viewport;
    return found ? [found.x * k + x, found.y * k + y] : null;
  }

  /** The first node within the frame of a project. */
  firstIn(key) {
    const box = this.picture.boxes.find((each) => each.key === key);
    const inside = (node) => node.x >= box.x && node.y >= box.y && node.x <= box.x + box.w && node.y <= box.y + box.h;
    return (box && this.picture.nodes.find(inside)?.key) ?? this.focused;
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
    this.updateLayer(this.boxLayer, this.picture.boxes, 'box', drawBox);
    this.updateLayer(this.edgeLayer, this.picture.edges, 'edge', drawEdge);
    this.updateLayer(this.nodeLayer, this.picture.nodes, 'node', drawNode);
    this.byKey = new Map(this.picture.nodes.map((node) => [node.key, node]));
    if (!this.byKey.has(this.focused)) this.focused = this.picture.nodes[0]?.key ?? '';
    this.mark();
    this.drawPath();
    if (!this.viewport.touched) this.viewport.fit(this.picture.bounds);
    else this.viewport.apply();
  }

  updateLayer(layer, items, prefix, draw) {
    const seen = new Set();
    let before = null;
    for (const item of items) {
      const id = `${prefix} ${item.key}`;
      if (seen.has(id)) continue;
      seen.add(id);
      const known = this.drawn.get(id);
      const now = draw(item, this.names, known);
      const { element } = now;
      if (known && known.element !== element) known.element.remove();
      this.drawn.set(id, now);
      // In the order of the picture: screen readers and Tab follow it.
      const next = before ? before.nextSibling : layer.firstChild;
      if (next !== element) layer.insertBefore(element, next);
      before = element;
    }
    for (const [id, { element }] of this.drawn) {
      if (id.startsWith(`${prefix} `) && !seen.has(id)) {
        element.remove();
        this.drawn.delete(id);
      }
    }
  }

  /** Marks the selected node, its edges, and the node that Tab reaches. */
  mark() {
    const chosen = this.selected;
    const related = new Set();
    for (const edge of this.picture.edges) {
      const on = edge.from === chosen || edge.to === chosen;
      if (on) related.add(edge.from).add(edge.to);
      this.drawn.get(`edge ${edge.key}`)?.element.classList.toggle('on', on);
    }
    for (const node of this.picture.nodes) {
      const element = this.drawn.get(`node ${node.key}`)?.element;
      if (!element) continue;
      element.classList.toggle('selected', node.key === chosen);
      element.classList.toggle('related', related.has(node.key));
      if (node.key === chosen) element.setAttribute('aria-current', 'true');
      else element.removeAttribute('aria-current');
      element.setAttribute('tabindex', node.key === this.focused ? '0' : '-1');
    }
  }

  select(key, { reveal = false } = {}) {
    this.selected = key;
    if (this.byKey?.has(key)) this.focused = key;
    this.mark();
    const node = this.byKey?.get(key);
    if (node && reveal) {
      this.viewport.touched = true;
      this.viewport.reveal(node, { center: true });
    }
  }

  /** Keeps a node visible beside the panel that opened. */
  keepInView(key) {
    const node = this.byKey?.get(key);
    if (node) this.viewport.reveal(node);
  }

  focus(key) {
    const element = this.drawn.get(`node ${key}`)?.element;
    if (!element) return;
    this.focused = key;
    this.mark();
    this.viewport.reveal(this.byKey.get(key));
    element.focus({ preventScroll: true });
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

  activate(key) {
    const node = this.byKey.get(key);
    if (!node) return;
    if (EXPANDS.has(node.type) || node.type === 'heading') this.toggle(key);
    else if (node.type === 'more') (node.data.open ? this.onSelect : (id) => this.onToggle(id, true))(`network:${node.data.node.id}`);
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
      Home: () => this.focus(this.picture.nodes[0]?.key),
      End: () => this.focus(this.picture.nodes.at(-1)?.key),
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
    put(this.pathLayer);
    this.svg.classList.toggle('has-path', Boolean(this.path?.keys.length));
    const keys = (this.path?.keys ?? []).filter((key) => this.byKey?.has(key));
    const steps = new Set();
    for (let at = 1; at < keys.length; at += 1) steps.add(`${keys[at - 1]}|${keys[at]}`).add(`${keys[at]}|${keys[at - 1]}`);
    for (const edge of this.picture.edges) {
      const element = this.drawn.get(`edge ${edge.key}`)?.element;
      const on = steps.has(`${edge.from}|${edge.to}`);
      element?.classList.toggle('on-path', on);
      if (on) this.edgeLayer.append(element); // above the others
    }
    const numbers = new Map(keys.map((key) => [key, this.path?.steps[key] ?? []]));
    for (const node of this.picture.nodes) this.drawn.get(`node ${node.key}`)?.element.classList.toggle('on-path', numbers.has(node.key));
    const verdict = this.path?.verdict ?? '';
    for (const [key, at] of numbers) {
      const { x, y } = this.byKey.get(key);
      const last = key === keys.at(-1);
      if (!last && !at.length) continue; // a network that the list has no step for
      const mark = last ? { delivered: 'ok', dropped: 'bad' }[verdict] ?? 'unknown' : '';
      this.pathLayer.append(s('g', { class: `step ${last ? `end ${verdict}` : ''}`, transform: `translate(${x} ${y})` },
        s('circle', { r: last ? 12 : 9 }),
        last ? s('g', { class: 'glyph', transform: 'translate(-7 -7) scale(.875)' }, paths(mark))
          : s('text', { y: 3.500, 'text-anchor': 'middle' }, at[0])));
    }
  }
}

function drawEdge(edge, names, known) {
  const d = pathOf(edge);
  const element = known?.element ?? s('path', { class: `edge ${edge.type}`, 'data-from': edge.from, 'data-to': edge.to });
  if (known?.signature !== d) element.setAttribute('d', d);
  return { element, signature: d };
}

function drawBox(box, names, known) {
  const { project, counts } = box.data;
  const title = `${names.project(project)} · ${count(counts.networks, 'network')}`;
  const signature = JSON.stringify([box.x, box.y, box.w, box.h, title]);
  if (known?.signature === signature) return known;
  const label = `Collapse project ${names.project(project)}`;
  const button = s('g', { class: 'toggle', 'data-toggle': box.key, role: 'button', tabindex: 0, 'aria-label': label },
    s('title', {}, label),
    s('rect', { class: 'hit', width: Math.min(box.w, 420), height: 30, rx: 6 }),
    s('g', { class: 'glyph', transform: 'translate(12 9) scale(.875)' }, paths('project')),
    s('text', { x: 34, y: 20, class: 't-text' }, title.length > 52 ? `${title.slice(0, 51)}…` : title));
  const element = s('g', { class: 'box', transform: `translate(${box.x} ${box.y})` },
    s('rect', { class: 'frame', width: box.w, height: box.h, rx: 12 }), button);
  return { element, signature };
}

function drawNode(node, names, known) {
  const { label, draw, expanded } = CARDS[node.type](node, names);
  const element = known?.element ?? s('g', { 'data-key': node.key, role: 'button', tabindex: -1 });
  const signature = `${node.type} ${node.w} ${expanded} ${label}`;
  const at = `translate(${node.x} ${node.y})`;
  if (known?.at !== at) element.setAttribute('transform', at);
  // Elements that show the same stay: replacing them takes time, and would lose the pointer and the focus.
  if (known?.signature === signature) return { element, signature, at };
  element.setAttribute('class', `node n-${node.type}${known || !names.settled() ? '' : ' new'}`);
  element.setAttribute('aria-label', label);
  if (expanded === undefined) element.removeAttribute('aria-expanded');
  else element.setAttribute('aria-expanded', String(expanded));
  put(element, s('g', {}, s('title', {}, label), ...draw()));
  return { element, signature, at };
}
