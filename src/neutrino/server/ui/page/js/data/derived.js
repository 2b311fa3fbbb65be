/** What is derived from the data, computed again only if what it depends on has changed. */

import { shortId } from '../core/format.js';
import { turn } from '../core/turns.js';
import { problemsOf, statusOf, totals } from './health.js';
import { buildHosts, buildTunnels, silentHosts } from './hosts.js';
import { portRow } from './rows.js';
import { indexFindings, stateOf } from './states.js';
import { countTroubles } from './troubles.js';
import { buildTopology } from './topology.js';
import { subnetUsage } from './usage.js';

const MANY = 2000; // ports: with fewer, all is derived at once

export class Derived {
  /**
   * @param {import('./store.js').Store} store
   * @param {{projectName: (id: string) => string, userName?: (id: string) => string, project: string | null}} options project: of the caller, or null if the caller
   *   sees the ports of all projects
   */
  constructor(store, { projectName, userName = shortId, project }) {
    this.store = store;
    this.projectName = projectName;
    this.userName = userName;
    this.project = project;
    /** Documents of the server: the status, and address usage. */
    /** @type {any | null} */
    this.status = null;
    /** @type {any[] | null} */
    this.availability = null;
    /** Where routers run, by id, as far as it was read. @type {Map<string, any>} */
    this.placements = new Map();
    this.editions = { status: 0, servers: 0, availability: 0, placements: 0, tick: 0 };
    /** Findings of GET /v2.0/health, in the form of the status. @type {any | null} */
    this.found = null;
    /** @type {Map<string, {at: string, value: any}>} */
    this.known = new Map();
  }

  /** @param {any} status */
  setStatus(status) {
    const before = JSON.stringify([this.status?.problems, this.status?.notes]);
    this.status = status;
    this.editions.servers += 1;
    if (!this.found && JSON.stringify([status?.problems, status?.notes]) !== before) this.editions.status += 1;
  }

  /** @param {any} problems of GET /v2.0/health */
  setProblems(problems) {
    this.found = statusOf(problems);
    this.editions.status += 1;
  }

  /** The timers of the page: what shows times is drawn again. */
  tick() {
    this.editions.tick += 1;
  }

  /** @param {any[] | null} availability */
  setAvailability(availability) {
    this.availability = availability;
    this.editions.availability += 1;
  }

  /** @param {any[]} placements */
  setPlacements(placements) {
    this.placements = new Map(placements.map((each) => [each.id, each]));
    this.editions.placements += 1;
  }

  /** What is derived from one object alone, kept with it: while lists are being read, so that less is left at their end. @param {string} kind @param {any} object */
  prepare(kind, object) {
    if (kind === 'port') portRow(object, this.store, this.facts, this.projectName);
  }

  /** Derives what all views need, one after the other, with the browser's turn in between. */
  async inParts() {
    if (this.store.tables.port.size < MANY) return;
    const parts = [() => this.problems, () => this.topology, () => this.facts, () => this.troubles, () => this.hosts];
    for (const part of parts) {
      part();
      await turn();
    }
  }

  /** A text that changes with these editions. @param {...string} names */
  editionOf(...names) {
    const own = /** @type {Object<string, number>} */ (this.editions);
    return names.map((name) => own[name] ?? this.store.editions[name]).join(' ');
  }

  /**
   * @template T
   * @param {string} name
   * @param {string[]} dependencies
   * @param {() => T} compute
   * @returns {T}
   */
  memo(name, dependencies, compute) {
    const at = this.editionOf(...dependencies);
    const known = this.known.get(name);
    if (known?.at === at) return known.value;
    const value = compute();
    this.known.set(name, { at, value });
    return value;
  }

  get topology() {
    return this.memo('topology', ['network', 'subnet', 'router', 'port', 'floatingip'], () => buildTopology(this.store.tables));
  }

  get agents() {
    return this.memo('agents', ['agent'], () => [...this.store.agents.values()]);
  }

  get hosts() {
    return this.memo('hosts', ['agent', 'port'], () => buildHosts(this.agents, this.store.all('port')));
  }

  get tunnels() {
    return this.memo('tunnels', ['agent', 'port', 'network'], () => buildTunnels(this.hosts, this.store.tables.network));
  }

  /** @param {string} host */
  tunnelsOf(host) {
    return this.memo(`tunnels ${host}`, ['agent', 'port', 'network'], () => buildTunnels(this.hosts, this.store.tables.network, host));
  }

  get usageList() {
    return this.memo('usageList', ['subnet', 'network', 'port', 'availability'], () =>
      subnetUsage(this.store.tables, this.availability, this.project));
  }

  get usage() {
    return this.memo('usage', ['subnet', 'network', 'port', 'availability'], () => new Map(this.usageList.map((each) => [each.id, each])));
  }

  get problems() {
    return this.memo('problems', ['status', 'port', 'router', 'floatingip'], () => problemsOf(this.store.tables, this.found ?? this.status));
  }

  get totals() {
    return totals(this.problems);
  }

  /** @returns {import('./states.js').Facts} */
  get facts() {
    return this.memo('facts', ['status', 'agent'], () => ({ findings: indexFindings(this.found ?? this.status), silent: silentHosts(this.agents) }));
  }

  /** How many objects of each network and router fail or have a warning. */
  get troubles() {
    return this.memo('troubles', ['network', 'subnet', 'router', 'port', 'floatingip', 'agent', 'status'], () => countTroubles(this.topology, this.facts));
  }

  /** The state of an object, the same in all views. @param {string} kind @param {any} object */
  state(kind, object) {
    return stateOf(kind, object, this.facts);
  }
}
