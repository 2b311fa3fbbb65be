/**
 * The drawing of each type of node: its shapes and texts, and its label for screen readers.
 *
 * The label has all that the card shows: a card is drawn again only if its label differs.
 */

import { s } from '../core/dom.js';
import { clean, count, truncate } from '../core/format.js';
import { paths } from '../core/icons.js';

const FONTS = { name: '600 13px', text: '400 11.5px', row: '500 12px', mono: '400 11px' };
let pen = null;
const widths = new Map();

/** The width of a text in pixels; measured once. */
function measure(text, font) {
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    pen ??= document.createElement('canvas').getContext('2d');
    pen.font = `${FONTS[font]} ${getComputedStyle(document.body).fontFamily}`;
    width = pen.measureText(text).width;
    if (widths.size > 20000) widths.clear();
    widths.set(key, width);
  }
  return width;
}

function text(value, x, y, width, font, more = {}) {
  const shown = truncate(clean(value), width, (part) => measure(part, font));
  return s('text', { x, y, class: `t-${font}`, ...more }, shown);
}

function glyph(name, x, y, size = 16, type = '') {
  return s('g', { class: `glyph ${type}`, transform: `translate(${x} ${y}) scale(${size / 16})` }, paths(name));
}

/** @param {import('../data/states.js').State} state @param {number} x @param {number} y @param {number} [size] */
function statusMark([name], x, y, size = 14) {
  return glyph(name, x, y, size, `status-${name}`);
}

function card(node, extra = '') {
  return s('rect', { class: `card ${extra}`, width: node.w, height: node.h, rx: 8 });
}

function chevron(node, open, y) {
  return s('g', { class: 'toggle', 'data-toggle': node.key },
    s('rect', { class: 'hit', x: node.w - 30, y: y - 5, width: 28, height: 24, rx: 6 }),
    glyph(open ? 'collapse' : 'expand', node.w - 23, y, 14));
}

/** @type {Object<string, (node: any, names: any) => {label: string, draw: () => any[], expanded?: boolean}>} */
export const CARDS = {
  external: (node, names) => networkCard(node, names, 'external'),
  network: (node, names) => networkCard(node, names, 'network'),

  router(node, names) {
    const { router: { router, name, gatewayId, gatewayIps } } = node.data;
    const gateway = gatewayId ? names.network(gatewayId) : '';
    const kinds = [router.ha && 'HA', router.distributed && 'distributed'].filter(Boolean);
    const line = gateway ? `${gatewayIps[0] ?? gateway}` : 'no external gateway';
    const tags = kinds.length ? ` · ${kinds.join(' ')}` : '';
    const [, state] = names.state('router', router);
    const networks = node.data.router.networkIds.length; // also those that are drawn below another router
    return {
      label: `Router ${name}, ${state}, ${gateway ? `gateway on ${gateway} ${gatewayIps.join(' ')}` : line}${tags.replace(' ·', ',')}, ${names.count('port', networks, 'network')}`,
      draw: () => [
        s('rect', { class: 'card k-router', width: node.w, height: node.h, rx: node.h / 2 }),
        glyph('router', 18, (node.h - 20) / 2, 20, 'kind'),
        text(name, 48, 23, node.w - 48 - 44, 'name'),
        text(`${line}${tags}`, 48, 40, node.w - 48 - 34, 'text', { class: 't-text minor' }),
        statusMark(names.state('router', router), node.w - 34, 12),
        node.data.counts.networks > 4 ? chevron(node, true, 29) : null,
      ],
    };
  },

  port(node, names) {
    const { member } = node.data;
    const { port, label, ips, floatingIps } = member;
    const [, state] = names.state('port', port);
    const floating = floatingIps[0]?.floating_ip_address ?? '';
    const address = floating || ips[0] || 'no address';
    const width = Math.min(measure(address, 'mono'), 104);
    const end = node.w - 9;
    const host = port['binding:host_id'];
    return {
      label: `Port ${label}, ${state}, ${ips.join(' ') || 'no address'}${floating ? `, floating IP ${floating}` : ''}${host ? `, on host ${host}` : ''}`,
      draw: () => [
        s('rect', { class: 'card k-port', width: node.w, height: node.h, rx: 6 }),
        statusMark(names.state('port', port), 8, 8, 12),
        text(label, 26, 18, end - width - (floating ? 16 : 0) - 34, 'row'),
        floating ? glyph('floatingip', end - width - 15, 8.500, 11, 'floating') : null,
        text(address, end, 18, 104, 'mono', { class: 't-mono minor', 'text-anchor': 'end' }),
      ],
    };
  },

  more(node) {
    const { count: all, more, open } = node.data;
    const words = open ? `${more} more ports` : count(all, 'port');
    return {
      label: `${words} of network ${node.data.node.name}${open ? ': select it for all of them' : ''}`,
      expanded: open ? undefined : false,
      draw: () => [
        s('rect', { class: 'card k-more', width: node.w, height: node.h, rx: 6 }),
        glyph('port', 8, 8, 12),
        text(words, 26, 18, node.w - 56, 'row'),
        open ? null : glyph('expand', node.w - 22, 8, 12),
      ],
    };
  },

  heading(node) {
    return {
      label: `${count(node.data.counts.networks, 'network')} without a router`,
      expanded: true,
      draw: () => [
        s('rect', { class: 'hit', width: node.w, height: node.h }),
        glyph('off', 0, 5, 14),
        text(
          `No router · ${count(node.data.counts.networks, 'network')}`, 20, 17,
          node.w - 24,
          'text',
          { class: 't-text minor' },
        ),
      ],
    };
  },

  group(node, names) {
    const { router, title, counts, trouble } = node.data;
    return clusterCard(node, router ? 'router' : 'network', title,
      [names.count('network', counts.networks), names.count('port', counts.ports)], router ? 'Router' : '', trouble);
  },

  project(node, names) {
    const { project, counts, trouble } = node.data;
    return clusterCard(node, 'project', names.project(project),
      [names.count('network', counts.networks), `${names.count('router', counts.routers)} · ${names.count('port', counts.ports)}`], 'Project', trouble);
  },
};

function networkCard(node, names, type) {
  const { node: { network, name, subnets, floatingIps, external }, count: ports, toggle, open } = node.data;
  const cidrs = subnets.map((subnet) => subnet.cidr);
  const line = cidrs.length > 2 ? `${cidrs[0]} + ${cidrs.length - 1} more` : cidrs.join(', ') || 'no subnet';
  const edge = toggle ? node.w - 60 : node.w - 13; // of the number of floating IPs
  const floating = external && floatingIps.length ? String(floatingIps.length) : '';
  const facts = [
    external && count(floatingIps.length, 'floating IP'), network.shared && !external && 'shared',
    ports > 0 && count(ports, 'port'), troubleWords(node.data.trouble) && `of all: ${troubleWords(node.data.trouble)}`,
  ].filter(Boolean);
  const mark = names.state('network', network);
  const worst = node.data.trouble?.bad ? 'bad' : mark[0]; // a port that fails is not hidden by its network
  return {
    label: `${external ? 'External network' : 'Network'} ${name}, ${mark[1]}, ${cidrs.join(' ') || 'no subnet'}${facts.length ? `, ${facts.join(', ')}` : ''}`,
    expanded: toggle ? open : undefined,
    draw: () => [
      card(node, `k-${type}`),
      s('path', { class: `band k-${type}`, d: `M8 0H${node.w - 8}a8 8 0 0 1 8 8H0a8 8 0 0 1 8-8` }),
      glyph(type, 12, 16, 17, 'kind'),
      text(name, 38, 28, node.w - 38 - 30, 'name'),
      text(line, 38, 47, node.w - 38 - (toggle ? 64 : 12) - (floating ? 34 : 0), 'text', { class: 't-text minor' }),
      floating ? text(floating, edge, 47, 30, 'text', { class: 't-text minor', 'text-anchor': 'end' }) : null,
      floating ? glyph('floatingip', edge - 16 - measure(floating, 'text'), 37, 11, 'floating') : null,
      statusMark([worst, ''], node.w - 24, 16),
      toggle ? text(String(ports), node.w - 30, 47, 30, 'text', { class: 't-text minor', 'text-anchor': 'end' }) : null,
      toggle ? chevron(node, open, 36) : null,
    ],
  };
}

/** Problems of what a card stands for, in words. @param {import('../data/troubles.js').Trouble | undefined} trouble */
function troubleWords(trouble) {
  return [trouble?.bad && count(trouble.bad, 'failure'), trouble?.warn && count(trouble.warn, 'warning')].filter(Boolean).join(', ');
}

/** @param {any} node @param {string} kind @param {string} title @param {string[]} lines @param {string} what @param {any} trouble */
function clusterCard(node, kind, title, lines, what, trouble) {
  const words = troubleWords(trouble);
  const state = trouble?.bad ? 'bad' : trouble?.warn ? 'warn' : 'ok';
  return {
    label: `${what ? `${what} ` : ''}${title}: ${words || 'no problems'}, ${lines.join(', ')}`,
    expanded: false,
    draw: () => [
      s('rect', { class: 'card behind', x: 8, y: 8, width: node.w - 4, height: node.h - 2, rx: 8 }),
      s('rect', { class: 'card behind', x: 4, y: 4, width: node.w - 2, height: node.h - 1, rx: 8 }),
      card(node, `k-cluster k-${kind} is-${state}`),
      glyph(kind, 14, 15, 18, 'kind'),
      text(title, 42, 29, node.w - 42 - 34, 'name'),
      glyph(state, 16, 40, 13, `status-${state}`),
      text(words || lines[0], 42, 50, node.w - 54, 'text', { class: words ? `t-text text-${state}` : 't-text minor' }),
      text(words ? lines.join(' · ') : lines[1], 42, 67, node.w - 54, 'text', { class: 't-text minor' }),
      glyph('expand', node.w - 26, 17, 14),
    ],
  };
}
