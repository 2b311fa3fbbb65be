/**
 * Positions of a scene, as a pure function: the same scene has the same picture.
 *
 * Layers from top to bottom: external networks, routers, networks, ports. Groups stand side by side on shelves. Lines run
 * at right angles in the lanes between the layers, so that they never cross a card.
 *
 * @typedef {{key: string, type: string, x: number, y: number, w: number, h: number, data: any}} Node
 * @typedef {{key: string, from: string, to: string, type: string, points: [number, number][], curved?: boolean}} Edge
 * @typedef {{key: string, x: number, y: number, w: number, h: number, data: any}} Box
 * @typedef {{nodes: Node[], edges: Edge[], boxes: Box[], areas: Box[], bounds: {x: number, y: number, w: number, h: number}}} Picture
 */

export const SIZE = {
  card: 212, router: 54, network: 62, external: 62, row: 28, cluster: 84, gap: 22, lane: 34, indent: 16, padding: 18,
  title: 34, shelf: 46, bus: 7,
};
const ASPECT = 1.7; // width to height


/**
 * @param {import('./scene.js').Scene} scene
 * @param {{stacked?: boolean, frames?: boolean}} [options] stacked: one group below the other, for a narrow window. Nothing else
 *   depends on the window, so that a picture stays the same in all of them
 * @returns {Picture}
 */
export function layout(scene, { stacked = false, frames = scene.regions.length > 1 } = {}) {
  const blocks = scene.regions.map((region) => (region.open ? openRegion(region, frames, stacked) : closedRegion(region)));
  const shelves = pack(blocks, stacked);
  const picture = { nodes: [], edges: [], boxes: [], areas: [] };
  const width = Math.max(0, ...shelves.map((shelf) => shelf.w));

  const top = placeExternals(scene.externals, width, picture);
  const lanes = scene.externals.length * SIZE.bus;
  let y = top.bottom === 0 ? 0 : top.bottom + SIZE.shelf + lanes;
  shelves.forEach((shelf, number) => {
    let x = number === 0 || shelves.length === 1 ? (width - shelf.w) / 2 : 0;
    for (const block of shelf.blocks) {
      place(block, x, y, picture);
      x += block.w + SIZE.gap * 1.5;
    }
    shelf.y = y;
    y += shelf.h + SIZE.shelf + lanes;
  });
  connectExternals(blocks, top, picture);
  connectCrossings(scene.crossings, picture);
  connectDevices(picture);
  return { ...picture, bounds: boundsOf(picture) };
}

// --- blocks: parts of the picture with the origin at their top left corner ---------------------------------------------

/** @param {number} w @param {number} h @returns {any} */
function newBlock(w, h) {
  return { w, h, x: 0, y: 0, nodes: [], edges: [], boxes: [], areas: [], uplinks: [] };
}

function closedRegion(region) {
  const block = newBlock(SIZE.card, SIZE.cluster);
  block.nodes.push({ key: region.key, type: 'project', x: 0, y: 0, w: SIZE.card, h: SIZE.cluster, data: region });
  for (const gateway of region.gateways) block.uplinks.push({ key: region.key, x: SIZE.card / 2, y: 0, gateway });
  return block;
}

function openRegion(region, framed, stacked) {
  const blocks = region.groups.map((group) => (group.open ? openGroup(group, region.groups.length === 1, stacked) : closedGroup(group)));
  const shelves = pack(blocks, stacked);
  const [padding, head] = framed ? [SIZE.padding, SIZE.title] : [0, 0];
  const width = Math.max(SIZE.card, ...shelves.map((shelf) => shelf.w));
  const block = newBlock(width + 2 * padding, 0);
  let y = head;
  shelves.forEach((shelf) => {
    let x = padding + (shelves.length === 1 ? (width - shelf.w) / 2 : 0);
    for (const part of shelf.blocks) {
      move(part, x, y, block);
      x += part.w + SIZE.gap * 1.5;
    }
    y += shelf.h + SIZE.shelf;
  });
  block.h = y - SIZE.shelf + padding;
  block.areas.push({ key: region.key, x: 0, y: 0, w: block.w, h: block.h });
  if (framed) block.boxes.push({ key: region.key, x: 0, y: 0, w: block.w, h: block.h, data: region });
  return block;
}

function closedGroup(group) {
  const block = newBlock(SIZE.card, SIZE.cluster);
  block.nodes.push({ key: group.key, type: 'group', x: 0, y: 0, w: SIZE.card, h: SIZE.cluster, data: group });
  for (const gateway of group.gateways) block.uplinks.push({ key: group.key, x: SIZE.card / 2, y: 0, gateway });
  return block;
}

/** A router above a grid of its networks. Lines run in the lanes above each row, and in a gutter on the left. */
function openGroup(group, only, stacked) {
  const cells = group.items.map((item) => networkCell(item));
  const columns = stacked ? 1 : columnsFor(cells.length);
  const rows = [];
  for (let at = 0; at < cells.length; at += columns) rows.push(cells.slice(at, at + columns));
  const gutter = rows.length > 1 && group.router ? SIZE.gap : 0;
  const inner = Math.max(1, Math.min(columns, cells.length));
  const block = newBlock(gutter + inner * SIZE.card + (inner - 1) * SIZE.gap, 0);
  // The same without a router, if there are others beside it: networks stand in one layer.
  const [head, lane] = group.router || !only ? [SIZE.router, SIZE.lane] : [26, SIZE.gap];
  const center = gutter + (block.w - gutter) / 2;
  const routerX = center - SIZE.card / 2;
  if (group.router) {
    block.nodes.push({ key: group.key, type: 'router', x: routerX, y: 0, w: SIZE.card, h: SIZE.router, data: group });
    for (const gateway of group.gateways) block.uplinks.push({ key: group.key, x: center, y: 0, gateway });
  } else {
    block.nodes.push({ key: group.key, type: 'heading', x: gutter, y: Math.max(0, head - 20), w: SIZE.card, h: 26, data: group });
  }
  let y = head;
  const first = head + lane / 2;
  rows.forEach((row, number) => {
    const bus = y + lane / 2;
    y += lane;
    row.forEach((cell, column) => {
      const x = gutter + column * (SIZE.card + SIZE.gap);
      cell.put(x, y, block);
      if (!group.router) return;
      const down = x + SIZE.card / 2;
      const points = number === 0
        ? [[center, head], [center, bus], [down, bus], [down, y]]
        : [[center, head], [center, first], [gutter / 2 - 2, first], [gutter / 2 - 2, bus], [down, bus], [down, y]];
      block.edges.push({ key: `${group.key}>${cell.key}`, from: group.key, to: cell.key, type: 'interface', points });
    });
    y += Math.max(...row.map((cell) => cell.h));
  });
  block.h = y;
  block.areas.push({ key: group.key, x: 0, y: 0, w: block.w, h: block.h });
  return block;
}

/** About as many columns as rows, with few places left empty in the last row. */
function columnsFor(number) {
  if (number <= 5) return Math.max(1, number);
  const least = Math.max(3, Math.ceil(Math.sqrt(number * 0.9)));
  const empty = (columns) => Math.ceil(number / columns) * columns - number;
  return [least, least + 1, least + 2].reduce((best, columns) => (empty(columns) < empty(best) ? columns : best));
}

/** A network with the lines of its ports below it. */
function networkCell(item, type = 'network') {
  const key = `network:${item.node.id}`;
  const lines = item.members.map((member) => ({ key: `port:${member.id}`, type: 'port', data: { member, network: item.node } }));
  if (item.more > 0) lines.push({ key: `more:${item.node.id}`, type: 'more', data: item });
  const h = SIZE[type] + lines.length * (SIZE.row + 4) + (lines.length ? 4 : 0);
  return {
    key, h,
    put(x, y, block) {
      block.nodes.push({ key, type, x, y, w: SIZE.card, h: SIZE[type], data: item });
      const stem = x + SIZE.indent / 2;
      lines.forEach((line, number) => {
        const top = y + SIZE[type] + 6 + number * (SIZE.row + 4);
        block.nodes.push({ ...line, x: x + SIZE.indent, y: top, w: SIZE.card - SIZE.indent, h: SIZE.row });
        const middle = top + SIZE.row / 2;
        const points = [[stem, y + SIZE[type]], [stem, middle], [x + SIZE.indent, middle]];
        block.edges.push({ key: `${key}>${line.key}`, from: key, to: line.key, type: 'member', points });
      });
    },
  };
}

// --- placing -----------------------------------------------------------------------------------------------------------

/** Blocks on shelves, in their order, about as wide as a window is. */
function pack(blocks, stacked) {
  const gap = SIZE.gap * 1.5;
  const area = blocks.reduce((sum, block) => sum + (block.w + gap) * (block.h + SIZE.shelf), 0);
  const widest = Math.max(0, ...blocks.map((block) => block.w));
  const limit = stacked ? 0 : Math.max(widest, Math.sqrt(area * ASPECT) * 1.08, 5 * (SIZE.card + gap));
  const shelves = [];
  for (const block of blocks) {
    let shelf = shelves.at(-1);
    if (!shelf || shelf.w + gap + block.w > limit) {
      shelf = { blocks: [], w: -gap, h: 0, y: 0 };
      shelves.push(shelf);
    }
    shelf.blocks.push(block);
    shelf.w += gap + block.w;
    shelf.h = Math.max(shelf.h, block.h);
  }
  return shelves;
}

function shifted(each, x, y) {
  const moved = { ...each };
  if ('x' in moved) Object.assign(moved, { x: moved.x + x, y: moved.y + y });
  if (moved.points) moved.points = moved.points.map(([px, py]) => [px + x, py + y]);
  return moved;
}

function move(part, x, y, target) {
  for (const name of ['nodes', 'edges', 'boxes', 'areas', 'uplinks']) target[name].push(...part[name].map((each) => shifted(each, x, y)));
}

function place(block, x, y, picture) {
  Object.assign(block, { x, y });
  for (const name of ['nodes', 'edges', 'boxes', 'areas']) picture[name].push(...block[name].map((each) => shifted(each, x, y)));
}

function placeExternals(items, width, picture) {
  const cells = items.map((item) => networkCell(item, 'external'));
  const total = cells.length * (SIZE.card + SIZE.gap * 2) - SIZE.gap * 2;
  let x = (Math.max(width, 0) - total) / 2;
  const at = new Map();
  let bottom = 0;
  const block = newBlock(0, 0);
  cells.forEach((cell, number) => {
    cell.put(x, 0, block);
    // Lines of ports hang on the left of the card, so its uplinks start right of the middle if there are any.
    at.set(items[number].node.id, { x: x + SIZE.card / 2, y: cell.h > SIZE.external ? SIZE.external : cell.h, number });
    x += SIZE.card + SIZE.gap * 2;
    bottom = Math.max(bottom, cell.h);
  });
  place(block, 0, 0, picture);
  return { at, bottom, count: cells.length };
}

/** From routers and cards up to the external networks: along the lane above their shelf, and down the left margin. */
function connectExternals(blocks, top, picture) {
  for (const block of blocks) {
    for (const { key, x, y, gateway } of block.uplinks) {
      const target = top.at.get(gateway);
      if (!target) continue;
      const offset = target.number * SIZE.bus;
      const bus = top.bottom + SIZE.shelf / 2 + offset;
      const [px, py] = [block.x + x, block.y + y];
      const lane = block.y - SIZE.shelf / 2 + 6 - (top.count - 1 - target.number) * SIZE.bus;
      const first = block.y - bus < SIZE.shelf * 1.5 + top.count * SIZE.bus;
      const direct = first && y <= SIZE.title;
      const inside = y > SIZE.title ? [
        [px, py], [px, py - SIZE.shelf / 2], [block.x + 6, py - SIZE.shelf / 2],
        [block.x + 6, lane],
      ] : [[px, py], [px, lane]];
      const margin = -SIZE.gap - offset;
      const up = [[target.x, bus], [target.x, target.y]];
      const points = direct
        ? [[px, py], [px, bus], ...up]
        : first ? [...inside.slice(0, -1), [block.x + 6, bus], ...up] : [...inside, [margin, lane], [margin, bus], ...up];
      picture.edges.push({ key: `${key}^${gateway}`, from: key, to: `network:${gateway}`, type: 'gateway', points });
    }
  }
}

/** A network with several routers is drawn below the first; the others reach it by a curve. */
function connectCrossings(crossings, picture) {
  const nodes = new Map(picture.nodes.map((node) => [node.key, node]));
  for (const { routerId, networkId } of crossings) {
    const [from, to] = [nodes.get(`router:${routerId}`), nodes.get(`network:${networkId}`)];
    if (!from || !to) continue;
    const points = [[from.x + from.w / 2, from.y + from.h], [to.x + to.w / 2 + 12, to.y]];
    picture.edges.push({ key: `${from.key}>${to.key}`, from: from.key, to: to.key, type: 'interface', points, curved: true });
  }
}

/** An instance with ports on several networks: its lines are connected. */
function connectDevices(picture) {
  const byDevice = new Map();
  for (const node of picture.nodes) {
    const port = node.type === 'port' ? node.data.member.port : null;
    if (!port?.device_id) continue;
    if (!byDevice.has(port.device_id)) byDevice.set(port.device_id, []);
    byDevice.get(port.device_id).push(node);
  }
  for (const nodes of byDevice.values()) {
    for (let at = 1; at < nodes.length; at += 1) {
      const [a, b] = [nodes[at - 1], nodes[at]].sort((one, two) => one.x - two.x);
      const points = [[a.x + a.w, a.y + a.h / 2], [b.x === a.x ? b.x + b.w : b.x, b.y + b.h / 2]];
      picture.edges.push({ key: `${a.key}=${b.key}`, from: a.key, to: b.key, type: 'device', points, curved: true });
    }
  }
}

function boundsOf({ nodes, boxes, edges }) {
  const xs = [];
  const ys = [];
  for (const { x, y, w, h } of [...nodes, ...boxes]) {
    xs.push(x, x + w);
    ys.push(y, y + h);
  }
  for (const { points } of edges) for (const [x, y] of points) { xs.push(x); ys.push(y); }
  if (!xs.length) return { x: 0, y: 0, w: 0, h: 0 };
  const least = (values) => values.reduce((a, b) => (b < a ? b : a));
  const most = (values) => values.reduce((a, b) => (b > a ? b : a));
  const [x, y] = [least(xs), least(ys)];
  return { x, y, w: most(xs) - x, h: most(ys) - y };
}

/** The path of an edge, with rounded corners. @param {Edge} edge */
export function pathOf({ points, curved }) {
  if (curved) {
    const [[x1, y1], [x2, y2]] = points;
    const bend = Math.max(24, Math.abs(y2 - y1) / 2);
    const side = Math.abs(y2 - y1) < 40 || Math.abs(x2 - x1) > Math.abs(y2 - y1) * 2;
    if (side && x1 === x2) return `M${x1} ${y1}C${x1 + 30} ${y1} ${x2 + 30} ${y2} ${x2} ${y2}`;
    if (side) return `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
    return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
  }
  const corners = points.filter(([x, y], at) => at === 0 || x !== points[at - 1][0] || y !== points[at - 1][1]);
  let path = `M${corners[0][0]} ${corners[0][1]}`;
  for (let at = 1; at < corners.length; at += 1) {
    const [x, y] = corners[at];
    const next = corners[at + 1];
    if (!next) {
      path += `L${x} ${y}`;
      continue;
    }
    const before = toward(corners[at], corners[at - 1]);
    const after = toward(corners[at], next);
    path += `L${before[0]} ${before[1]}Q${x} ${y} ${after[0]} ${after[1]}`;
  }
  return path;
}

/** The point at most 6 (or half the way) from one corner toward another. */
function toward([x, y], [tx, ty]) {
  const length = Math.hypot(tx - x, ty - y) || 1;
  const part = Math.min(6, length / 2) / length;
  return [x + (tx - x) * part, y + (ty - y) * part];
}
