/** What the change log does not tell: the server's status and the usage of addresses, read again now and then. */

import { ApiError } from './api.js';

const OFTEN = 5000; // milliseconds between reads in the views that show it
const RARELY = 30000; // elsewhere: the number of problems only
const AT_ONCE = 1500; // after a change of an agent's state

export class Extras {
  /**
   * @param {import('./api.js').Api} api
   * @param {import('./derived.js').Derived} derived
   * @param {{isAdmin: boolean, onRead: () => void}} options
   */
  constructor(api, derived, { isAdmin, onRead }) {
    this.api = api;
    this.derived = derived;
    this.isAdmin = isAdmin;
    this.onRead = onRead;
    this.view = '';
    this.statusHidden = isAdmin ? '' : 'not available';
    this.availabilityHidden = !isAdmin;
    this.statusAt = 0;
    this.agents = -1;
    this.usageOf = '';
    this.reading = false;
    this.healthHidden = false;
    this.problems = ''; // the edition that was read
    this.placementsAt = 0;
    this.placementsHidden = false;
  }

  start() {
    this.derived.store.subscribe(() => this.afterChange());
    setInterval(() => {
      this.derived.tick();
      if (this.view === 'timeline') this.onRead();
      this.read();
    }, OFTEN);
  }

  /** Another view is shown. @param {string} view */
  now(view) {
    this.view = view;
    this.statusAt = view === 'health' ? 0 : this.statusAt;
    this.read();
  }

  /** An agent that fails is in the status as well: both are shown together. */
  afterChange() {
    const { loaded, editions } = this.derived.store;
    if (!loaded || editions.agent === this.agents) return;
    this.agents = editions.agent;
    if (Date.now() - this.statusAt > AT_ONCE) this.statusAt = 0;
    this.read();
  }

  async read() {
    if (this.reading || !this.derived.store.loaded || document.visibilityState !== 'visible') return;
    this.reading = true;
    try {
      await this.readHealth();
      await this.readStatus();
      await this.readUsage();
      await this.readPlacements();
    } finally {
      this.reading = false;
    }
  }

  /** What fails, for all views; a poll costs little while nothing changes. */
  async readHealth() {
    if (this.healthHidden || this.statusHidden) return;
    const params = this.problems ? [/** @type {[string, string]} */ (['problems', this.problems])] : [];
    try {
      const { health } = await this.api.get('v2.0/health', params);
      this.problems = health.editions.problems;
      if (!health.problems) return;
      this.derived.setProblems(health.problems);
      this.onRead();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.healthHidden = [403, 404].includes(error.status); // the status has problems too
    }
  }

  async readStatus() {
    const wait = this.view === 'health' ? OFTEN - 100 : this.healthHidden ? RARELY : Infinity;
    if (this.statusHidden || Date.now() - this.statusAt < wait) return;
    this.statusAt = Date.now();
    await this.attempt('v2.0/status', (answer) => this.derived.setStatus(answer.status), () => (this.statusHidden = 'not available'));
  }

  async readUsage() {
    const edition = this.derived.editionOf('network', 'subnet', 'port');
    if (this.view !== 'subnets') {
      // Read again when it is next shown; until then usage is counted from the ports.
      if (this.derived.availability) this.derived.setAvailability(null);
      this.usageOf = '';
      return;
    }
    if (this.availabilityHidden || this.usageOf === edition) return;
    this.usageOf = edition;
    await this.attempt(
      'v2.0/network-ip-availabilities', (answer) => this.derived.setAvailability(answer.network_ip_availabilities),
      () => (this.availabilityHidden = true),
    );
  }

  /** Where routers run, for their table. */
  async readPlacements() {
    if (this.view !== 'routers' || this.placementsHidden || Date.now() - this.placementsAt < OFTEN * 2 - 100) return;
    this.placementsAt = Date.now();
    const found = [];
    try {
      for (let marker = ''; ;) {
        const answer = await this.api.get('v2.0/router-placements', [['limit', '1000'], ...(marker ? [/** @type {[string, string]} */ (['marker', marker])] : [])]);
        found.push(...answer.router_placements);
        if (answer.router_placements.length < 1000) break;
        marker = answer.router_placements.at(-1).id;
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.placementsHidden = [403, 404].includes(error.status);
      return;
    }
    this.derived.setPlacements(found);
    this.onRead();
  }

  /** @param {string} path @param {(answer: any) => void} use @param {() => void} hide */
  async attempt(path, use, hide) {
    try {
      use(await this.api.get(path));
      this.onRead();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if ([403, 404].includes(error.status)) hide();
    }
  }
}
