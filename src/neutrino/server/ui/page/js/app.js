/** The page after the login: data, views, and the place in the page. */

import { announce } from './core/announce.js';
import { h, put } from './core/dom.js';
import { clean, nameOf, shortId } from './core/format.js';
import { formatPlace, parsePlace, parseSelection } from './core/hash.js';
import { ApiError } from './data/api.js';
import { findings } from './data/health.js';
import { buildHosts, buildTunnels } from './data/hosts.js';
import { TITLES } from './data/kinds.js';
import { Live } from './data/live.js';
import { forget, isAdmin } from './data/session.js';
import { Store } from './data/store.js';
import { buildTopology } from './data/topology.js';
import { subnetUsage } from './data/usage.js';
import { Canvas, nodeKeyOf } from './views/canvas.js';
import { Details } from './views/details.js';
import { HealthView } from './views/health.js';
import { HostsView } from './views/hosts.js';
import { Shell } from './views/shell.js';
import { SubnetsView } from './views/subnets.js';
import { TraceView } from './views/trace.js';

const RARELY = 30000;
const EXTRAS = 5000; // milliseconds between reads of the status and of address usage, in the views that show them

export class App {
  /** @param {{api: any, session: any, onExpired: () => void}} options */
  constructor({ api, session, onExpired }) {
    Object.assign(this, { api, session, onExpired });
    this.store = new Store();
    this.names = new Map([
      ...session.projects.map(({ id, name }) => [id, name]), ...Object.entries(session.names ?? {}),
    ].map(([id, name]) => [id, clean(name)]));
    if (session.project_id) this.names.set(session.project_id, clean(session.project));
    this.place = parsePlace(location.hash);
    this.status = null;
    this.statusHidden = '';
    this.availability = null;
    this.availabilityHidden = !isAdmin(session);
    this.derivedOf = -1;

    const projectName = (id) => this.names.get(id) || shortId(id) || 'no project';
    this.projectName = projectName;
    this.shell = new Shell({
      session, store: this.store, projectName,
      onProject: (project) => this.go(this.place.view, { project }),
      onLogOut: () => { forget(); location.hash = ''; location.reload(); },
      onRetry: () => (this.live.connection.state === 'expired' ? this.onExpired() : this.live.now()),
    });
    this.canvas = new Canvas({ store: this.store, projectName, onSelect: (key) => this.onSelect(key) });
    this.details = new Details({ api, store: this.store, context: () => this.context(), onClose: () => this.closeDetails() });
    this.hosts = new HostsView();
    this.health = new HealthView();
    this.subnets = new SubnetsView();
    this.trace = new TraceView({ api, store: this.store, canvas: this.canvas, nodeKey: (kind, id) => nodeKeyOf(this.store, kind, id) });
    this.live = new Live(
      api, this.store, (connection) => this.onConnection(connection),
      (kind, difference) => this.onDifference(kind, difference),
    );
  }

  start(root) {
    put(root, this.shell.element);
    this.store.subscribe(() => this.update());
    addEventListener('hashchange', () => this.onPlace());
    this.frame = h('div', { class: 'views' });
    put(this.shell.main, this.frame);
    this.arrange();
    this.live.start();
    setInterval(() => this.readExtras(), EXTRAS);
  }

  // --- the place ----------------------------------------------------------------------------------------------------------

  go(view, params) {
    location.hash = formatPlace({ view, params: { ...this.place.params, ...params } });
  }

  onPlace() {
    const before = this.place;
    this.place = parsePlace(location.hash);
    // The project stays chosen when a link leads to another view or object.
    if (before.params.project && this.place.params.project === undefined && this.place.view !== 'trace') {
      this.place.params.project = before.params.project;
      history.replaceState(null, '', formatPlace(this.place));
    }
    this.filled = false;
    if (this.place.view !== 'subnets' && this.availability) {
      // Read again when it is next shown; until then usage is counted from the ports.
      [this.availability, this.availabilityOf, this.derived] = [null, -1, null];
    }
    if (before.view !== this.place.view) this.arrange();
    this.update();
    this.revealSelection();
    if (before.view !== this.place.view) {
      announce(document.title);
      this.readExtras();
    }
  }

  /** Puts the elements of the current view into the page. */
  arrange() {
    const { view } = this.place;
    const parts = {
      topology: [this.canvas.element, this.details.element],
      trace: [this.canvas.element, this.trace.element],
      hosts: [this.hosts.element, this.details.element],
      health: [this.health.element],
      subnets: [this.subnets.element, this.details.element],
    }[view];
    this.frame.className = `views view-${view}`;
    put(this.frame, ...parts);
    if (view !== 'trace') this.canvas.showPath(null);
    else this.canvas.graph.select('');
    this.canvas.graph.resized();
  }

  onSelect(key) {
    if (this.place.view === 'trace') {
      this.trace.pick(key);
      return;
    }
    if (!key && !this.place.params.select) return;
    this.fromGraph = true;
    this.go('topology', { select: key });
  }

  closeDetails() {
    const { select } = this.place.params;
    this.go(this.place.view, { select: '' });
    const selection = parseSelection(select);
    if (selection && this.place.view === 'topology') {
      setTimeout(() => this.canvas.graph.focus(nodeKeyOf(this.store, selection.kind, selection.id)));
    }
  }

  revealSelection() {
    const selection = parseSelection(this.place.params.select);
    if (this.place.view === 'topology' && this.store.loaded) {
      this.canvas.select(selection?.kind ?? '', selection?.id ?? '', { reveal: Boolean(selection) && !this.fromGraph });
      if (this.fromGraph && selection) requestAnimationFrame(() => this.canvas.graph.keepInView(this.canvas.graph.selected));
    }
    if (selection && !this.fromGraph && this.place.view !== 'trace') this.details.focus();
    this.fromGraph = false;
  }

  // --- data ---------------------------------------------------------------------------------------------------------------

  onConnection(connection) {
    const before = this.shell.state?.state;
    this.shell.setConnection(connection);
    if (before && before !== connection.state) {
      announce({ live: 'Connected: the page is live.', disconnected: 'Disconnected from the server.', expired: 'The login has expired.' }[connection.state] ?? '');
    }
  }

  onDifference(kind, { added, removed }) {
    const words = [];
    if (added.length) words.push(`${TITLES[kind]} ${added.slice(0, 3).map(nameOf).join(', ')}${added.length > 3 ? ` and ${added.length - 3} more` : ''} appeared.`);
    if (removed.length) words.push(`${TITLES[kind]} ${removed.slice(0, 3).map(nameOf).join(', ')}${removed.length > 3 ? ` and ${removed.length - 3} more` : ''} removed.`);
    if (words.length) announce(words.join(' '));
  }

  /** Everything that is derived from the data; computed once for each state of it. */
  context() {
    if (this.derivedOf !== this.store.version || !this.derived) {
      this.derivedOf = this.store.version;
      const agents = [...this.store.agents.values()];
      const hosts = buildHosts(agents, this.store.all('port'));
      const project = isAdmin(this.session) ? null : this.session.project_id;
      const usage = subnetUsage(this.store.tables, this.availability, project);
      this.derived = {
        store: this.store, agents, hosts, projectName: this.projectName,
        topology: buildTopology(this.store.tables),
        tunnels: buildTunnels(hosts, this.store.tables.network),
        usageList: usage, usage: new Map(usage.map((each) => [each.id, each])),
        findings: findings(this.store.tables, this.status),
      };
    }
    return this.derived;
  }

  async readExtras() {
    if (!this.store.loaded || document.visibilityState !== 'visible') return;
    const { view } = this.place;
    const read = async (path, use, hide) => {
      try {
        use(await this.api.get(path));
        this.derived = null;
        this.update();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if ([403, 404].includes(error.status)) hide();
      }
    };
    const due = view === 'health' || Date.now() - (this.statusAt ?? 0) > RARELY; // elsewhere for the number of problems only
    if (due && !this.statusHidden && isAdmin(this.session)) {
      this.statusAt = Date.now();
      await read('v2.0/status', (answer) => (this.status = answer.status), () => (this.statusHidden = 'not available'));
    }
    if (view === 'subnets' && !this.availabilityHidden && this.availabilityOf !== this.store.edition) {
      this.availabilityOf = this.store.edition;
      await read(
        'v2.0/network-ip-availabilities', (answer) => (this.availability = answer.network_ip_availabilities),
        () => (this.availabilityHidden = true),
      );
    }
  }

  // --- drawing ------------------------------------------------------------------------------------------------------------

  update() {
    const context = this.context();
    const { view, params } = this.place;
    const { loaded, hidden } = this.store;
    if (loaded && !this.everLoaded) {
      this.everLoaded = true;
      this.readExtras();
    }
    this.shell.update(this.place, context.topology.projects, context.findings.length);
    const selection = parseSelection(params.select);
    if (view === 'topology' || view === 'trace') this.canvas.update(context.topology, params.project ?? '');
    if (view === 'hosts') {
      const none = hidden.get('agent') ?? (loaded && !isAdmin(this.session) && !context.agents.length ? 'visible to administrators only' : '');
      this.hosts.update({ ...context, hidden: none, loaded, selected: selection?.kind === 'host' ? selection.id : '' });
    }
    if (view === 'health') {
      const agentsHidden = hidden.get('agent') ?? (loaded && !isAdmin(this.session) && !context.agents.length ? 'visible to administrators only' : '');
      this.health.update({ ...context, ports: this.store.all('port'), status: this.status, statusHidden: this.statusHidden, agentsHidden, loaded });
    }
    if (view === 'subnets') this.subnets.update(
      context.usageList,
      { project: params.project ?? '', loaded, availabilityHidden: this.availabilityHidden },
    );
    if (view === 'trace') {
      this.trace.update();
      if (loaded && !this.filled) {
        this.filled = true;
        this.trace.fill(params);
      }
    }
    this.showDetails(selection);
  }

  showDetails(selection) {
    const { view } = this.place;
    const open = Boolean(selection) && view !== 'trace' && view !== 'health';
    this.details.element.hidden = !open;
    this.frame.classList.toggle('with-panel', open || view === 'trace');
    if (!open) {
      this.details.shown = '';
      if (view === 'topology') this.canvas.graph.select('');
      return;
    }
    this.details.show(selection.kind, selection.id);
    if (view === 'topology' && this.store.loaded && !this.revealed) {
      this.revealed = true;
      this.revealSelection();
    }
  }
}
