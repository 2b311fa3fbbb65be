/** Pure: the node that an arrow key leads to. */

/**
 * The nearest node in a direction; what is straight ahead is preferred to what is aside.
 *
 * @param {{key: string, x: number, y: number, w: number, h: number}[]} nodes
 * @param {string} key
 * @param {string} direction up, down, left or right
 */
export function nearest(nodes, key, direction) {
  const from = nodes.find((node) => node.key === key);
  if (!from) return nodes[0]?.key ?? null;
  const vertical = direction === 'up' || direction === 'down';
  const sign = direction === 'down' || direction === 'right' ? 1 : -1;
  const [x, y] = middle(from);
  let best = null;
  let least = Infinity;
  for (const node of nodes) {
    if (node.key === key) continue;
    const [nx, ny] = middle(node);
    const ahead = sign * (vertical ? ny - y : nx - x);
    if (ahead <= 1) continue;
    const aside = vertical ? gap(from.x, from.w, node.x, node.w) : gap(from.y, from.h, node.y, node.h);
    const offset = Math.abs(vertical ? nx - x : ny - y);
    const cost = ahead + aside * 3 + offset * 0.3;
    if (cost < least) [best, least] = [node.key, cost];
  }
  return best;
}

function middle({ x, y, w, h }) {
  return [x + w / 2, y + h / 2];
}

function gap(a, aSize, b, bSize) {
  return Math.max(0, b - (a + aSize), a - (b + bSize));
}
