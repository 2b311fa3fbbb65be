/** Elements of boxes, edges and nodes; one that shows the same stays, since replacing it takes time and would lose the focus. */

import { put, s } from '../core/dom.js';
import { count } from '../core/format.js';
import { paths } from '../core/icons.js';
import { CARDS } from './cards.js';
import { pathOf } from './layout.js';

/** @typedef {{element: any, signature: string, at?: string}} Made */

/** @param {import('./layout.js').Edge} edge @param {any} _names @param {Made | undefined} known @returns {Made} */
function drawEdge(edge, _names, known) {
  const d = pathOf(edge);
  const element = known?.element ?? s('path', { class: `edge ${edge.type}`, 'data-from': edge.from, 'data-to': edge.to, 'data-id': `edge ${edge.key}` });
  if (known?.signature !== d) element.setAttribute('d', d);
  return { element, signature: d };
}

/** @param {import('./layout.js').Box} box @param {any} names @param {Made | undefined} known @returns {Made} */
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
  const element = s('g', { class: 'box', 'data-id': `box ${box.key}`, transform: `translate(${box.x} ${box.y})` },
    s('rect', { class: 'frame', width: box.w, height: box.h, rx: 12 }), button);
  return { element, signature };
}

/** @param {import('./layout.js').Node} node @param {any} names @param {Made | undefined} known @param {number} level @returns {Made} */
function drawNode(node, names, known, level) {
  const { label, draw, expanded } = CARDS[node.type](node, names);
  const element = known?.element ?? s('g', { 'data-key': node.key, 'data-id': `node ${node.key}`, role: 'button', tabindex: -1 });
  const far = level === 2 && node.type !== 'project';
  const signature = `${node.type} ${node.w} ${expanded} ${far} ${label}`;
  const at = `translate(${node.x} ${node.y})`;
  if (known?.at !== at) element.setAttribute('transform', at);
  if (known?.signature === signature) return { element, signature, at };
  element.setAttribute('class', `node n-${node.type}${known || !names.settled() ? '' : ' new'}`);
  element.setAttribute('aria-label', label);
  if (expanded === undefined) element.removeAttribute('aria-expanded');
  else element.setAttribute('aria-expanded', String(expanded));
  put(element, s('g', {}, ...(far ? plain(node, names) : [s('title', {}, label), ...draw()])));
  return { element, signature, at };
}

/** From far away: a card in the colour of its kind, or of its state if it fails. @param {import('./layout.js').Node} node @param {any} names */
function plain(node, names) {
  const object = node.data.node?.network ?? node.data.router?.router;
  const own = object ? names.state(node.data.node ? 'network' : 'router', object)[0] : 'ok';
  const state = node.data.trouble?.bad ? 'bad' : own;
  return [s('rect', { class: `card far-card k-${node.type} is-${state}`, width: node.w, height: node.h, rx: 8 })];
}

/** @type {Object<string, (item: any, names: any, known: Made | undefined, level: number) => Made>} */
export const DRAW = { box: drawBox, edge: drawEdge, node: drawNode };
