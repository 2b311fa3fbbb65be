/**
 * The objects that the page knows, by kind and id. Listeners are notified of changes together.
 *
 * Each kind has an edition, a number that grows when one of its objects changes. What is derived from the objects is computed
 * again only if an edition that it depends on has grown, and so is what is drawn.
 */

import { KINDS } from './kinds.js';

/** What a report of an agent changes each time. */
const BEATS = new Set(['heartbeat_timestamp']);

export class Store {
  constructor() {
    /** @type {Object<string, Map<string, any>>} */
    this.tables = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, new Map()]));
    /** @type {Map<string, any>} */
    this.agents = new Map();
    /** Kinds that cannot be listed, each with the reason. @type {Map<string, string>} */
    this.hidden = new Map();
    /** Whether all lists have been read. */
    this.loaded = false;
    /** Kinds whose list has been read wholly. @type {Set<string>} */
    this.complete = new Set();
    /** Objects of a list that is being read. @type {Map<string, number>} */
    this.progress = new Map();
    /** @type {Object<string, number>} */
    this.editions = Object.fromEntries([...Object.keys(KINDS), 'agent', 'beat', 'state'].map((kind) => [kind, 0]));
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.pending = false;
  }

  /** @param {string} kind @param {string} id */
  get(kind, id) {
    if (kind === 'agent') return this.agents.get(id);
    return Object.hasOwn(this.tables, kind) ? this.tables[kind].get(id) : undefined;
  }

  /** @param {string} kind @returns {any[]} */
  all(kind) {
    return [...this.tables[kind].values()];
  }

  /** @param {string} kind @param {any[]} rows */
  replace(kind, rows) {
    this.tables[kind] = new Map(rows.map((row) => [row.id, row]));
    this.complete.add(kind);
    this.progress.delete(kind);
    this.changed(kind);
  }

  /** @param {string} kind @param {number} number */
  reading(kind, number) {
    this.progress.set(kind, number);
    this.changed('state');
  }

  /**
   * Replaces those ids by rows: an id without a row is gone. Returns the objects that appeared and those that are gone.
   *
   * @param {string} kind
   * @param {string[]} ids
   * @param {any[]} rows
   */
  merge(kind, ids, rows) {
    const table = this.tables[kind];
    const found = new Map(rows.map((row) => [row.id, row]));
    const added = [];
    const removed = [];
    let differs = false;
    for (const id of ids) {
      const row = found.get(id);
      const own = table.get(id);
      if (row) {
        if (!own) added.push(row);
        if (own && isSame(own, row)) continue;
        table.set(id, row);
        differs = true;
      } else if (own) {
        removed.push(own);
        table.delete(id);
        differs = true;
      }
    }
    if (differs) this.changed(kind);
    return { added, removed };
  }

  /**
   * Agents report all the time: what they report changes nothing unless it differs in more than its time.
   *
   * @param {any[]} rows
   */
  replaceAgents(rows) {
    const before = this.agents;
    let beats = false;
    let differs = rows.length !== before.size || !this.complete.has('agent');
    for (const row of rows) {
      const own = before.get(row.id);
      differs ||= !own || !isSame(own, row, BEATS);
      beats ||= !own || own.heartbeat_timestamp !== row.heartbeat_timestamp;
    }
    this.complete.add('agent');
    if (differs) {
      this.agents = new Map(rows.map((row) => [row.id, row]));
      this.changed('agent');
    } else if (beats) {
      for (const row of rows) before.get(row.id).heartbeat_timestamp = row.heartbeat_timestamp;
      this.changed('beat');
    }
  }

  /** @param {string} kind @param {string} reason */
  hide(kind, reason) {
    this.hidden.set(kind, reason);
    this.complete.add(kind);
    this.changed('state');
  }

  finish() {
    this.loaded = true;
    this.changed('state');
  }

  /** @param {() => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
  }

  /** @param {string} kind */
  changed(kind) {
    this.editions[kind] += 1;
    if (this.pending) return;
    this.pending = true;
    // A timer, not a frame: pages in the background have no frames.
    setTimeout(() => {
      this.pending = false;
      for (const listener of [...this.listeners]) listener();
    }, 16);
  }
}

/** @param {any} a @param {any} b @param {Set<string>} [except] */
function isSame(a, b, except) {
  const leave = except && ((/** @type {string} */ name, /** @type {any} */ value) => (except.has(name) ? undefined : value));
  return JSON.stringify(a, leave) === JSON.stringify(b, leave);
}
