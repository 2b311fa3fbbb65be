/** The page after the login: data, views, and the place in the page. */

import { announce } from './core/announce.js';
import { h, put } from './core/dom.js';
import { clean, nameOf, shortId } from './core/format.js';
import { formatPlace, parsePlace, parseSelection } from './core/hash.js';
import { ApiError } from './data/api.js';
import { Derived } from './data/derived.js';
import { TITLES } from './data/kinds.js';
import { Extras } from './data/extras.js';
import { Live } from './data/live.js';
import { forget, isAdmin, logIn, remember } from './data/session.js';
import { Store } from './data/store.js';
import { Canvas, nodeKeyOf } from './views/canvas.js';
import { Details } from './views/details.js';
import { HealthView } from './views/health.js';
import { HostsView, MESH } from './views/hosts.js';
import { Shell } from './views/shell.js';
import { SubnetsView } from './views/subnets.js';
import { MADE_FROM, TableView } from './views/table.js';
import { TimelineView } from './views/timeline.js';
import { TraceView } from './views/trace.js';

/** What each view is drawn from: it is drawn again only if one of these has changed. @type {Object<string, string[]>} */
const DRAWN_FROM = {
  topology: ['network', 'subnet', 'router', 'port', 'floatingip', 'agent', 'status'],
  trace: ['network', 'subnet', 'router', 'port', 'floatingip', 'agent', 'status'],
  ports: MADE_FROM.port,
  networks: MADE_FROM.network,
  routers: MADE_FROM.router,
  hosts: ['agent', 'port', 'network'],
  health: ['agent', 'beat', 'port', 'router', 'floatingip', 'status', 'servers'],
  subnets: ['network', 'subnet', 'port', 'availability'],
  timeline: ['network', 'subnet', 'router', 'port', 'floatingip', 'security_group', 'tick'],
};

export class App {
  /** @param {{api: import('./data/api.js').Api, session: any, onExpired: () => void}} options */
  constructor({ api, session, onExpired }) {
    this.session = session;
    this.onExpired = onExpired;
    this.store = new Store();
    this.names = new Map([
      ...session.projects.map((/** @type {any} */ { id, name }) => [id, name]), ...Object.entries(session.names ?? {}),
    ].map(([id, name]) => [id, clean(name)]));
    if (session.project_id) this.names.set(session.project_id, clean(session.project));
    this.place = parsePlace(location.hash);
    const projectName = (/** @type {string} */ id) => this.names.get(id) || shortId(id) || 'no project';
    const userName = (/** @type {string} */ id) => (id === session.user_id && clean(session.user)) || shortId(id);
    this.derived = new Derived(this.store, { projectName, userName, project: isAdmin(session) ? null : session.project_id });
    this.extras = new Extras(api, this.derived, { isAdmin: isAdmin(session), onRead: () => this.refresh() });
    this.shell = new Shell({
      session, projectName, searched: () => this.searched(),
      onGo: (href) => this.follow(href),
      onProject: (project) => this.go(this.place.view, { project }),
      onSwitch: (select) => this.switchProject(api, select),
      onLogOut: () => { forget(); location.hash = ''; location.reload(); },
      onRetry: () => (this.live.connection.state === 'expired' ? this.onExpired() : this.live.now()),
    });
    const nodeKey = (/** @type {string} */ kind, /** @type {string} */ id) => nodeKeyOf(this.store, kind, id);
    this.canvas = new Canvas({
      derived: this.derived, onSelect: (key) => this.onSelect(key),
      onProblems: (only) => this.go('topology', { problems: only ? '1' : '' }),
    });
    this.details = new Details({ api, derived: this.derived, onClose: () => this.closeDetails(), onUpdate: () => this.showDetails() });
    this.hosts = new HostsView();
    this.health = new HealthView();
    const goTable = (/** @type {Object<string, string>} */ params, replace = false) => this.go(this.place.view, params, replace);
    /** @type {Object<string, TableView>} */
    this.tables = Object.fromEntries(['port', 'network', 'router'].map((kind) => [`${kind}s`, new TableView(kind, { go: goTable })]));
    this.hostTable = new TableView('host', { go: goTable });
    this.hostViews = h('div', { class: 'either' }, this.hosts.element, this.hostTable.element);
    this.subnets = new SubnetsView();
    this.timeline = new TimelineView({ api, derived: this.derived, go: goTable });
    this.trace = new TraceView({ api, derived: this.derived, canvas: this.canvas, nodeKey });
    this.live = new Live(
      api, this.store, (connection) => this.onConnection(connection),
      (kind, difference) => this.onDifference(kind, difference), (kind, object) => this.derived.prepare(kind, object),
    );
    this.frame = h('div', { class: 'views' });
    /** What the views were drawn from, by view. @type {Map<string, string>} */
    this.drawn = new Map();
    this.fromGraph = false;
    this.revealed = false;
    /** Whether something is being derived, and whether the data has changed meanwhile. */
    this.refreshing = false;
    this.stale = false;
  }

  /** @param {any} root */
  start(root) {
    put(root, this.shell.element);
    this.store.subscribe(() => this.refresh());
    addEventListener('hashchange', () => this.onPlace());
    document.addEventListener('click', (event) => this.onLink(event));
    put(this.shell.main, this.frame);
    this.arrange();
    this.update();
    this.live.start();
    this.extras.start();
  }

  /** Another token, of the chosen project. @param {import('./data/api.js').Api} api @param {any} select */
  async switchProject(api, select) {
    try {
      remember(await logIn(api, { method: 'token', token: this.session.token, project_id: select.value }));
      location.hash = '';
      location.reload();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      select.value = this.session.project_id;
      select.title = error.message;
      announce(error.message);
    }
  }

  // --- the place ----------------------------------------------------------------------------------------------------------

  /** @param {string} view @param {Object<string, string>} params @param {boolean} [replace] typing in a filter makes no history */
  go(view, params, replace = false) {
    const hash = formatPlace({ view, params: { ...this.place.params, ...params } });
    if (replace) {
      history.replaceState(null, '', hash);
      this.onPlace();
    } else {
      location.hash = hash;
    }
  }

  /** The project stays chosen when a link leads to another view or object; Back leads to what was shown. @param {string} href */
  follow(href) {
    const place = parsePlace(href);
    const { project } = this.place.params;
    if (project && !('project' in place.params)) place.params.project = project;
    location.hash = formatPlace(place);
  }

  /** @param {MouseEvent} event */
  onLink(event) {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const href = /** @type {Element} */ (event.target).closest?.('a')?.getAttribute('href') ?? '';
    if (!href.startsWith('#/')) return;
    event.preventDefault();
    this.follow(href);
  }

  onPlace() {
    const before = this.place;
    this.place = parsePlace(location.hash);
    if (before.view !== this.place.view) this.arrange();
    this.update();
    this.revealSelection(before.params.select);
    if (before.view !== this.place.view) {
      announce(document.title);
      this.extras.now(this.place.view);
    }
  }

  /** Puts the elements of the current view into the page. */
  arrange() {
    const { view } = this.place;
    const parts = {
      topology: [this.canvas.element, this.details.element],
      ...Object.fromEntries(Object.entries(this.tables).map(([name, table]) => [name, [table.element, this.details.element]])),
      trace: [this.canvas.element, this.trace.element],
      hosts: [this.hostViews, this.details.element],
      health: [this.health.element],
      timeline: [this.timeline.element],
      subnets: [this.subnets.element, this.details.element],
    }[view];
    this.frame.className = `views view-${view}`;
    put(this.frame, ...(parts ?? []));
    this.extras.view = view;
    if (view === 'topology' || view === 'trace') this.canvas.graph.resized(); // the window may have changed meanwhile
    if (view !== 'trace') {
      this.canvas.showPath(null);
      this.trace.place = '';
    } else {
      this.canvas.graph.select('');
    }
  }

  /** @param {string} key */
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

  /** @param {string} [before] what was selected before */
  revealSelection(before = '') {
    const selection = parseSelection(this.place.params.select);
    if (this.place.view === 'topology' && this.store.loaded) {
      this.canvas.select(selection?.kind ?? '', selection?.id ?? '', { reveal: Boolean(selection) && !this.fromGraph });
      if (this.fromGraph && selection) requestAnimationFrame(() => this.canvas.graph.keepInView(this.canvas.graph.selected));
    }
    if (selection && !this.fromGraph && this.place.view !== 'trace' && before !== this.place.params.select) this.details.focus();
    this.fromGraph = false;
  }

  // --- data ---------------------------------------------------------------------------------------------------------------

  searched() {
    const { projectName, topology, hosts } = this.derived;
    const projects = topology.projects.map((id) => ({ id, name: projectName(id) }));
    return { tables: this.store.tables, hosts, projects, projectName };
  }

  /** @param {import('./data/live.js').Connection} connection */
  onConnection(connection) {
    const before = this.shell.state?.state;
    this.shell.setConnection(connection);
    if (before && before !== connection.state) {
      announce({
        live: 'Connected: the page is live.', late: 'The server does not answer.', disconnected: 'Disconnected from the server.',
        expired: 'The login has expired.', loading: '',
      }[connection.state] ?? '');
    }
  }

  /** @param {string} kind @param {{added: any[], removed: any[]}} difference */
  onDifference(kind, { added, removed }) {
    const words = [];
    const some = (/** @type {any[]} */ rows) => `${rows.slice(0, 3).map(nameOf).join(', ')}${rows.length > 3 ? ` and ${rows.length - 3} more` : ''}`;
    if (added.length) words.push(`${TITLES[kind]} ${some(added)} appeared.`);
    if (removed.length) words.push(`${TITLES[kind]} ${some(removed)} removed.`);
    if (words.length) announce(words.join(' '));
  }

  // --- drawing ------------------------------------------------------------------------------------------------------------

  /** The data has changed: what is derived of it, in parts, then the view. */
  async refresh() {
    this.stale = true;
    if (this.refreshing) return;
    this.refreshing = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.derived.inParts();
        this.update();
      }
    } finally {
      this.refreshing = false;
    }
  }

  update() {
    const { view, params } = this.place;
    const { loaded, complete } = this.store;
    const { bad, warn } = this.derived.totals;
    this.shell.update(this.place, complete.has('network') ? this.derived.topology.projects : [], bad + warn);
    const key = `${formatPlace(this.place)} ${loaded} ${this.derived.editionOf(...DRAWN_FROM[view], 'state')}`;
    if (this.drawn.get(view) !== key) {
      this.drawn.set(view, key);
      this.draw(view, params);
    }
    if (view === 'trace' && loaded) this.trace.open(params);
    this.showDetails();
  }

  /** @param {string} view @param {Object<string, string>} params */
  draw(view, params) {
    const { loaded } = this.store;
    const selection = parseSelection(params.select);
    if (view === 'topology' || view === 'trace') this.canvas.update(params.project ?? '', view === 'topology' && params.problems === '1');
    this.tables[view]?.update(this.derived, params, selection?.id ?? '');
    if (view === 'hosts') {
      const selected = selection?.kind === 'host' ? selection.id : '';
      const many = this.derived.hosts.length > MESH && !this.agentsHidden();
      this.hosts.element.hidden = many;
      this.hostTable.element.hidden = !many;
      if (many) this.hostTable.update(this.derived, params, selected);
      else this.hosts.update(this.derived, { hidden: this.agentsHidden(), loaded, selected });
    }
    if (view === 'health') {
      this.health.update(this.derived, { statusHidden: this.extras.statusHidden, agentsHidden: this.agentsHidden(), loaded });
    }
    if (view === 'timeline') this.timeline.update(params);
    if (view === 'subnets') {
      const { availabilityHidden } = this.extras;
      this.subnets.update(this.derived.usageList, { project: params.project ?? '', loaded, availabilityHidden });
    }
  }

  agentsHidden() {
    const hidden = this.store.hidden.get('agent');
    return hidden ?? (this.store.loaded && !isAdmin(this.session) && !this.store.agents.size ? 'visible to administrators only' : '');
  }

  showDetails() {
    const { view, params } = this.place;
    const selection = parseSelection(params.select);
    const open = Boolean(selection) && !['trace', 'health', 'timeline'].includes(view);
    this.details.element.hidden = !open;
    this.frame.classList.toggle('with-panel', open || view === 'trace');
    if (!selection || !open) {
      this.details.clear();
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
