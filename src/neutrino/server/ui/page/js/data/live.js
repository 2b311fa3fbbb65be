/**
 * Keeps the store up to date: reads all lists once, then the change log, and fetches the objects that changed.
 *
 * A server without the change log in its API is polled by lists of revisions. The same lists are read now and then anyway:
 * members do not see changes of other projects, such as those of a shared network.
 */

import { inParts } from '../core/turns.js';
import { ApiError } from './api.js';
import { differing, idsByKind, isTooOld } from './changes.js';
import { KINDS } from './kinds.js';

const POLL = 2000; // milliseconds between reads of the change log
const AGENTS = 4000;
const LISTS = 4000; // between lists of revisions, without the change log
const SWEEP = 30000; // the same, with it
const ROWS = 500;
const AGENT_FIELDS = ['id', 'agent_type', 'host', 'alive', 'admin_state_up', 'availability_zone', 'started_at', 'heartbeat_timestamp', 'configurations'];
const PATIENCE = 5000; // without an answer the page is not live
const BACK_OFF = [1000, 2000, 4000, 8000, 15000];

/**
 * @typedef {'loading' | 'live' | 'late' | 'disconnected' | 'expired'} State
 * @typedef {{state: State, mode: 'changes' | 'lists', at: number, error: string}} Connection
 */
export class Live {
  /**
   * @param {import('./api.js').Api} api
   * @param {import('./store.js').Store} store
   * @param {(connection: Connection) => void} onState
   * @param {(kind: string, difference: {added: any[], removed: any[]}) => void} onChange
   * @param {(kind: string, object: any) => void} [prepare] what is derived from one object alone, while its list is being read
   */
  constructor(api, store, onState, onChange, prepare = () => {}) {
    this.api = api;
    this.store = store;
    this.onState = onState;
    this.onChange = onChange;
    this.prepare = prepare;
    this.position = null;
    /** @type {Connection} */
    this.connection = { state: 'loading', mode: 'changes', at: 0, error: '' };
    this.failures = 0;
    this.agentsAt = 0;
    this.agentsTook = 0;
    this.listsAt = 0;
    this.timer = 0;
    /** @type {(() => void) | null} */
    this.wake = null;
  }

  start() {
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.now());
    this.run();
  }

  /** Polls at once, such as after a click on "retry". */
  now() {
    clearTimeout(this.timer);
    this.wake?.();
  }

  async run() {
    for (;;) {
      let wait = POLL;
      const late = setTimeout(() => this.late(), PATIENCE);
      try {
        if (!this.store.loaded) await this.load();
        else await this.poll();
        this.failures = 0;
        this.set({ state: 'live', at: Date.now(), error: '' });
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) {
          this.set({ state: 'expired', error: error.message });
          return;
        }
        if (!(error instanceof ApiError)) console.error(error);
        wait = BACK_OFF[Math.min(this.failures, BACK_OFF.length - 1)];
        this.failures += 1;
        this.set({ state: 'disconnected', error: error instanceof ApiError ? error.message : 'The page has failed: see its console.' });
      } finally {
        clearTimeout(late);
      }
      await this.sleep(wait);
    }
  }

  /** A server that hangs keeps its connections: what is shown may be old. */
  late() {
    if (this.connection.state === 'live') this.set({ state: 'late', error: `The server has not answered for ${PATIENCE / 1000} seconds.` });
  }

  /** @param {number} milliseconds */
  sleep(milliseconds) {
    return new Promise((/** @type {(value?: any) => void} */ resolve) => {
      this.wake = resolve;
      // A page that nobody looks at does not poll; it continues when it is looked at again.
      if (document.visibilityState === 'visible') this.timer = setTimeout(resolve, milliseconds);
    });
  }

  /** @param {Partial<Connection>} values */
  set(values) {
    this.connection = { ...this.connection, ...values };
    this.onState(this.connection);
  }

  async load() {
    // The position before the lists: what changes meanwhile is fetched again.
    this.position = await this.head();
    // Ports last: on a slow line the topology of networks and routers is there long before them.
    await Promise.all(Object.keys(KINDS).filter((kind) => kind !== 'port').map((kind) => this.loadKind(kind)));
    await Promise.all([this.loadKind('port'), this.loadAgents()]);
    this.listsAt = Date.now();
    this.store.finish();
  }

  async head() {
    try {
      const answer = await this.api.get('v2.0/changes');
      // 0: no feed process has ever run on this database, so changes have no positions.
      this.connection.mode = answer.position ? 'changes' : 'lists';
      return answer.position || null;
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.connection.mode = 'lists';
      return null;
    }
  }

  /** @param {string} kind */
  async loadKind(kind) {
    try {
      this.store.replace(kind, await this.api.list(kind, {
        onPage: async (rows, number) => {
          this.store.reading(kind, number);
          await inParts(rows, (object) => this.prepare(kind, object));
        },
      }));
    } catch (error) {
      if (!(error instanceof ApiError) || !isMissing(error)) throw error;
      this.store.hide(kind, error.status === 404 ? 'this server does not have them' : 'not visible with your roles');
    }
  }

  async loadAgents() {
    if (this.store.hidden.has('agent')) return;
    this.agentsAt = Date.now();
    try {
      const fields = AGENT_FIELDS.map((field) => /** @type {[string, string]} */ (['fields', field]));
      this.store.replaceAgents((await this.api.get('v2.0/agents', fields)).agents);
      this.agentsTook = Date.now() - this.agentsAt;
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.store.hide('agent', 'visible to administrators only');
    }
  }

  async poll() {
    if (this.position === null) {
      if (Date.now() - this.listsAt < LISTS) return this.pollAgents();
      this.position = await this.head();
      await this.sweep();
    } else {
      await this.pollChanges();
      if (Date.now() - this.listsAt >= SWEEP) await this.sweep();
    }
    await this.pollAgents();
  }

  async pollAgents() {
    // With thousands of hosts on a slow line, less often: most of the line is for what changes.
    if (Date.now() - this.agentsAt >= Math.max(AGENTS, this.agentsTook * 10)) await this.loadAgents();
  }

  async pollChanges() {
    for (;;) {
      const answer = await this.api.get('v2.0/changes', [['after', String(this.position)], ['limit', String(ROWS)]]);
      if (isTooOld(this.position, answer)) {
        await this.load();
        return;
      }
      const rows = answer.changes ?? [];
      for (const [kind, ids] of idsByKind(rows, Object.keys(KINDS))) await this.refetch(kind, ids);
      this.position = rows.length < ROWS ? (answer.position || this.position) : rows[rows.length - 1].position;
      if (rows.length < ROWS) return;
    }
  }

  async sweep() {
    this.listsAt = Date.now();
    for (const kind of Object.keys(KINDS)) {
      if (this.store.hidden.has(kind)) continue;
      const fields = ['id', 'revision_number', ...(KINDS[kind].fields.includes('status') ? ['status'] : [])];
      const ids = differing(this.store.tables[kind], await this.api.list(kind, { fields }));
      if (ids.length) await this.refetch(kind, ids);
    }
  }

  /** @param {string} kind @param {string[]} ids */
  async refetch(kind, ids) {
    if (this.store.hidden.has(kind)) return;
    const rows = await this.api.listByIds(kind, ids);
    this.onChange(kind, this.store.merge(kind, ids, rows));
  }
}

/** @param {unknown} error */
function isMissing(error) {
  return error instanceof ApiError && [403, 404, 405, 501].includes(error.status);
}
