/**
 * Keeps elements for the part of a picture that is in view, in slices of time, so that a large picture stays fluent.
 *
 * What is out of view has no elements. From far away there are fewer: no ports, then no texts (semantic zoom). Elements stand in
 * the order of the picture, which is the order in which screen readers and Tab meet them.
 *
 * @typedef {import('./layout.js').Node} Node
 * @typedef {import('./layout.js').Edge} Edge
 * @typedef {import('./layout.js').Box} Box
 * @typedef {{x: number, y: number, w: number, h: number}} Rect
 * @typedef {0 | 1 | 2} Level 0 near: all; 1: without ports; 2 far: without texts
 * @typedef {{id: string, layer: string, order: number, item: any, rect: Rect, level: number}} Item level: the farthest that shows it
 * @typedef {{element: any, order: number, signature: string, at?: string, item: any, level: Level}} Drawn
 */

import { DRAW } from './draw.js';

const SLICE = 10; // milliseconds of drawing in a frame
const FIRST = 40; // at once, so that what is small is there without a frame in between
const NEAR = 0.5;
const FAR = 0.24;
const SHOWN_AT = { port: 0, more: 0, member: 0, device: 0, heading: 1, interface: 1 };

/** @param {number} scale @returns {Level} */
export function levelOf(scale) {
  return scale >= NEAR ? 0 : scale >= FAR ? 1 : 2;
}

export class Painter {
  /**
   * @param {Object<string, any>} layers by name: box, edge, node
   * @param {any} names
   * @param {(item: any, element: any) => void} decorate classes of a node or edge that was drawn
   */
  constructor(layers, names, decorate) {
    this.layers = layers;
    this.names = names;
    this.decorate = decorate;
    /** @type {Map<string, Item>} */
    this.items = new Map();
    /** @type {Map<string, Drawn>} */
    this.drawn = new Map();
    /** @type {Item[]} */
    this.queue = [];
    /** @type {Level} */
    this.level = 0;
    this.frame = 0;
  }

  /** Another picture. @param {import('./layout.js').Picture} picture */
  set(picture) {
    const items = new Map();
    const add = (/** @type {string} */ layer, /** @type {any} */ item, /** @type {Rect} */ rect, /** @type {string} */ type) => {
      const id = `${layer} ${item.key}`;
      if (!items.has(id)) items.set(id, { id, layer, order: items.size, item, rect, level: SHOWN_AT[/** @type {'port'} */ (type)] ?? 2 });
    };
    for (const box of picture.boxes) add('box', box, box, 'box');
    for (const edge of picture.edges) add('edge', edge, rectOf(edge), edge.type);
    for (const node of picture.nodes) add('node', node, node, node.type);
    this.items = items;
    for (const [id, drawn] of this.drawn) {
      const item = items.get(id);
      if (item) drawn.order = item.order;
      else this.remove(id);
    }
    for (const layer of Object.keys(this.layers)) this.sort(layer);
  }

  /** Elements in the order of the picture. @param {string} layer */
  sort(layer) {
    const known = [...this.drawn].filter(([id]) => id.startsWith(`${layer} `)).sort(([, a], [, b]) => a.order - b.order);
    let before = null;
    for (const [, { element }] of known) {
      const next = before ? before.nextSibling : this.layers[layer].firstChild;
      if (next !== element) this.layers[layer].insertBefore(element, next);
      before = element;
    }
  }

  /**
   * Draws what is in a part of the picture, and removes what is not.
   *
   * @param {Rect} view
   * @param {Level} level
   * @param {Set<string>} kept nodes that stay wherever they are, such as the one with the focus
   */
  show(view, level, kept) {
    this.level = level;
    this.queue = [];
    for (const item of this.items.values()) {
      const wanted = (item.level >= level && intersects(item.rect, view)) || (item.layer === 'node' && kept.has(item.item.key));
      const known = this.drawn.get(item.id);
      // Of the same picture and as near as before: it shows the same.
      if (wanted && known && known.item === item.item && known.level === level) continue;
      if (wanted) this.queue.push(item);
      else if (known) this.remove(item.id);
    }
    cancelAnimationFrame(this.frame);
    this.work(FIRST);
  }

  /** @param {number} milliseconds */
  work(milliseconds) {
    const ends = performance.now() + milliseconds;
    let at = 0;
    while (at < this.queue.length && (at % 8 || performance.now() < ends)) this.draw(this.queue[at++]);
    this.queue = this.queue.slice(at);
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.work(SLICE));
  }

  /** Draws a node at once, such as one that gets the focus. @param {string} key */
  now(key) {
    const item = this.items.get(`node ${key}`);
    if (item) this.draw(item);
    return this.element('node', key);
  }

  /** @param {Item} item */
  draw({ id, layer, order, item }) {
    const known = this.drawn.get(id);
    const now = DRAW[layer](item, this.names, known, this.level);
    this.drawn.set(id, { ...now, order, item, level: this.level });
    if (known && known.element !== now.element) known.element.replaceWith(now.element);
    else if (!known) this.layers[layer].insertBefore(now.element, this.after(layer, order));
    this.decorate(item, now.element);
  }

  /** The element that follows one of this order; by halves, since elements are in order. @param {string} layer @param {number} order */
  after(layer, order) {
    const { children } = this.layers[layer];
    let low = 0;
    let high = children.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const known = this.drawn.get(children[middle].getAttribute('data-id'));
      if (known && known.order < order) low = middle + 1;
      else high = middle;
    }
    return children[low] ?? null;
  }

  /** @param {string} id */
  remove(id) {
    this.drawn.get(id)?.element.remove();
    this.drawn.delete(id);
  }

  /** @param {string} layer @param {string} key */
  element(layer, key) {
    return this.drawn.get(`${layer} ${key}`)?.element;
  }

  /** All that is drawn gets its classes again. */
  decorateAll() {
    for (const [id, { element }] of this.drawn) {
      const item = this.items.get(id);
      if (item) this.decorate(item.item, element);
    }
  }
}

/** @param {Edge} edge @returns {Rect} */
function rectOf({ points }) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return { x: left, y: top, w: right - left, h: bottom - top };
}

/** @param {Rect} a @param {Rect} b */
function intersects(a, b) {
  return a.x <= b.x + b.w && b.x <= a.x + a.w && a.y <= b.y + b.h && b.y <= a.y + a.h;
}
