/** Work in parts, between which the browser draws and answers: a task of more than 100 ms is felt. */

/** @type {(() => void)[]} */
const waiting = [];
const channel = new MessageChannel();
channel.port1.onmessage = () => waiting.shift()?.();

/** The browser's turn. A message, not a timer: nested timers wait four milliseconds each, and a second in the background. */
export function turn() {
  return new Promise((/** @type {(value?: any) => void} */ resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });
}

/**
 * @template T
 * @param {T[]} items
 * @param {(item: T) => void} work
 * @param {number} [size] of a part
 */
export async function inParts(items, work, size = 250) {
  for (let at = 0; at < items.length; at += size) {
    for (const item of items.slice(at, at + size)) work(item);
    if (at + size < items.length) await turn();
  }
}
