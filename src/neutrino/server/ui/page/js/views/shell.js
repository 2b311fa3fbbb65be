/** The frame of the page: navigation, search, project filter, connection, theme and login. */

import { h, patch } from '../core/dom.js';
import { ago, clean } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { applyTheme, currentTheme, nextTheme } from '../core/theme.js';
import { searchBox } from './search.js';

/** @type {Object<string, string>} */
const NAMES = {
  topology: 'Topology', ports: 'Ports', networks: 'Networks', routers: 'Routers', hosts: 'Hosts', subnets: 'Subnets', health: 'Health',
  timeline: 'Timeline', trace: 'Trace',
};
/** @type {Object<string, string>} */
const ICONS = { ports: 'port', networks: 'network', routers: 'router', timeline: 'change' };
const CONNECTION = {
  loading: ['unknown', 'Loading'], live: ['live', 'Live'], late: ['warn', 'No answer'], disconnected: ['bad', 'Disconnected'], expired: ['key', 'Login expired'],
};

export class Shell {
  /**
   * @param {{session: any, searched: () => import('../data/search.js').Searched, onGo: (href: string) => void, onProject: (id: string) => void, onLogOut: () => void, onSwitch: (select: any) => void, onRetry: () => void,
   *   projectName: (id: string) => string}} options
   */
  constructor(options) {
    this.options = options;
    this.links = new Map();
    this.problems = h('span', { class: 'badge', hidden: true });
    const nav = h('nav', { 'aria-label': 'Views' }, Object.entries(NAMES).map(([view, name]) => {
      const link = h(
        'a', { href: formatPlace({ view, params: {} }) }, icon(ICONS[view] ?? view),
        h('span', {}, name),
        view === 'health' ? this.problems : null,
      );
      this.links.set(view, link);
      return link;
    }));
    this.project = h(
      'select',
      { 'aria-label': 'Project', class: 'project', on: { change: () => options.onProject(this.project.value) } },
    );
    this.connection = h('button', { type: 'button', class: 'connection', on: { click: options.onRetry } });
    this.banner = h('div', { class: 'banner', hidden: true });
    this.main = h('main', { id: 'main', tabindex: -1 });
    this.element = h('div', { class: 'shell' },
      h(
        'a',
        { href: '#main', class: 'skip', on: { click: (event) => { event.preventDefault(); this.main.focus(); } } },
        'Skip to the content',
      ),
      h('header', { class: 'top' },
        h(
          'a', { class: 'brand', href: '#/topology', 'aria-label': 'neutrino: topology' },
          h('img', { src: 'icon.svg', alt: '', width: 24, height: 24 }),
          h('span', {}, 'neutrino'),
        ),
        nav, searchBox(options.searched, options.onGo), this.project, this.connection, this.themeButton(), this.account()),
      this.banner, this.main);
    setInterval(() => this.drawConnection(), 1000);
  }

  themeButton() {
    const button = h('button', { type: 'button', class: 'tool' });
    const draw = () => {
      const theme = currentTheme();
      const label = `Theme: ${theme}. Change to ${nextTheme(theme)}.`;
      button.setAttribute('aria-label', label);
      button.title = label;
      patch(button, icon(theme));
    };
    button.addEventListener('click', () => {
      applyTheme(nextTheme(currentTheme()));
      draw();
    });
    draw();
    return button;
  }

  account() {
    const { session, onLogOut } = this.options;
    if (session.auth === 'noauth') {
      const title = 'This server has no authentication: everyone who reaches it is an administrator.';
      return h('span', { class: 'account none', title }, 'No authentication');
    }
    const who = `${clean(session.user)}${session.project ? ` · ${clean(session.project)}` : ''}`;
    const { projects } = session;
    const others = projects.length > 1 && session.project_id;
    const change = others ? h('select', {
      class: 'switch', 'aria-label': 'Project of the login', on: { change: (/** @type {any} */ event) => this.options.onSwitch(event.currentTarget) },
    }, projects.map((/** @type {any} */ { id, name }) => h('option', { value: id, selected: id === session.project_id }, clean(name)))) : null;
    return h('div', { class: 'account' }, change, h('span', { title: `Roles: ${session.roles.join(', ') || 'none'}` }, who),
      h('button', { type: 'button', class: 'tool', title: 'Log out', 'aria-label': 'Log out', on: { click: onLogOut } }, icon('logout')));
  }

  /** Marks the current view, and lists the projects of the data. */
  update(place, projects, problems) {
    for (const [view, link] of this.links) {
      if (view === place.view) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    document.title = `${NAMES[place.view]} – neutrino`;
    const chosen = place.params.project ?? '';
    const known = [...new Set([...projects, ...(chosen ? [chosen] : [])])];
    const wanted = JSON.stringify([known, known.map((id) => this.options.projectName(id))]);
    if (wanted !== this.projects) {
      this.projects = wanted;
      patch(this.project, h('option', { value: '' }, 'All projects'),
        known.filter(Boolean).map((id) => h('option', { value: id }, this.options.projectName(id))));
    }
    if (this.project.value !== chosen) this.project.value = chosen;
    this.project.hidden = known.filter(Boolean).length < 2 && !chosen;
    this.problems.hidden = problems === 0;
    patch(this.problems, String(problems), h('span', { class: 'visually-hidden' }, problems === 1 ? ' problem' : ' problems'));
  }

  setConnection(connection) {
    this.state = connection;
    this.drawConnection();
  }

  drawConnection() {
    const { state = 'loading', at = 0, error = '', mode = 'changes' } = this.state ?? {};
    const [name, word] = CONNECTION[state];
    const since = at ? ago(Date.now() - at) : '';
    const detail = state === 'live' ? (mode === 'changes' ? 'from the change log' : 'from lists, every few seconds') : error;
    const key = `${state} ${state === 'live' ? '' : since} ${error} ${mode}`;
    if (key === this.shownConnection) return;
    this.shownConnection = key;
    this.connection.className = `connection is-${state}`;
    this.connection.title = `${word} ${detail}${['late', 'disconnected'].includes(state) ? ' Click to retry.' : ''}`;
    patch(this.connection, icon(name), h('span', {}, word));
    this.banner.hidden = !['late', 'disconnected', 'expired'].includes(state);
    patch(this.banner, icon('warn'), h('span', { role: state === 'expired' ? 'alert' : 'status' },
      state === 'expired' ? 'The login has expired. ' : `${error} ${at ? `What you see is from ${since}. ` : ''}`),
      h('button', { type: 'button', on: { click: this.options.onRetry } }, state === 'expired' ? 'Log in again' : 'Retry now'));
  }
}
