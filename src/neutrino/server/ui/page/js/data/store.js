/**
 * The objects that the page knows, by kind and id. Views are notified of changes together, once per frame.
 */

import { KINDS } from './kinds.js';

export class Store {
  constructor() {
    /** @type {Object<string, Map<string, any>>} */
    this.tables = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, new Map()]));
    this.agents = new Map();
    /** Kinds that cannot be listed, each with the reason. */
    this.hidden = new Map();
    this.loaded = false;
    this.version = 0;
    /** Changes of objects, without those of agents. */
    this.edition = 0;
    this.listeners = new Set();
    this.pending = false;
  }

  get(kind, id) {
    return (kind === 'agent' ? this.agents : this.tables[kind])?.get(id);
  }

  all(kind) {
    return [...this.tables[kind].values()];
  }

  replace(kind, rows) {
    this.tables[kind] = new Map(rows.map((row) => [row.id, row]));
    this.edition += 1;
    this.changed();
  }

  /** Replaces those ids by rows: an id without a row is gone. Returns the ids that appeared and those that are gone. */
  merge(kind, ids, rows) {
    const table = this.tables[kind];
    const found = new Map(rows.map((row) => [row.id, row]));
    const added = [];
    const removed = [];
    for (const id of ids) {
      const row = found.get(id);
      if (row) {
        if (!table.has(id)) added.push(row);
        table.set(id, row);
      } else if (table.has(id)) {
        removed.push(table.get(id));
        table.delete(id);
      }
    }
    this.edition += 1;
    this.changed();
    return { added, removed };
  }

  replaceAgents(rows) {
    this.agents = new Map(rows.map((row) => [row.id, row]));
    this.changed();
  }

  hide(kind, reason) {
    this.hidden.set(kind, reason);
    this.changed();
  }

  clear() {
    for (const kind of Object.keys(KINDS)) this.tables[kind] = new Map();
    this.agents = new Map();
    this.hidden = new Map();
    this.loaded = false;
    this.changed();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed() {
    this.version += 1;
    if (this.pending) return;
    this.pending = true;
    // A timer, not a frame: pages in the background have no frames.
    setTimeout(() => {
      this.pending = false;
      for (const listener of [...this.listeners]) listener();
    }, 16);
  }
}
