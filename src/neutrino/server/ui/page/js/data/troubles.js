/**
 * How many objects of each network and router fail or have a warning, for the cards that stand for them. Pure.
 *
 * @typedef {{bad: number, warn: number}} Trouble
 * @typedef {Map<string, Trouble>} Troubles by key of the node; what is well is not in it
 */

import { stateOf } from './states.js';

/**
 * @param {import('./topology.js').Topology} topology
 * @param {import('./states.js').Facts} facts
 * @returns {Troubles}
 */
export function countTroubles(topology, facts) {
  /** @type {Troubles} */
  const found = new Map();
  const add = (/** @type {string} */ key, /** @type {string} */ name) => {
    if (name !== 'bad' && name !== 'warn') return;
    const known = found.get(key) ?? { bad: 0, warn: 0 };
    known[name] += 1;
    found.set(key, known);
  };
  for (const [id, node] of topology.networks) {
    const key = `network:${id}`;
    add(key, stateOf('network', node.network, facts)[0]);
    for (const { port } of node.members) add(key, stateOf('port', port, facts)[0]);
  }
  for (const [id, node] of topology.routers) add(`router:${id}`, stateOf('router', node.router, facts)[0]);
  return found;
}

/** @param {Iterable<Trouble | undefined>} troubles @returns {Trouble} */
export function sumOf(troubles) {
  const sum = { bad: 0, warn: 0 };
  for (const each of troubles) {
    sum.bad += each?.bad ?? 0;
    sum.warn += each?.warn ?? 0;
  }
  return sum;
}

/** What fails most first. @param {Trouble} a @param {Trouble} b */
export function byTrouble(a, b) {
  return b.bad - a.bad || b.warn - a.warn;
}
