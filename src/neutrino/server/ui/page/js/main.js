/** Start of the page: the login, if the server has one, then the application. */

import { App } from './app.js';
import { h, put } from './core/dom.js';
import { applyTheme, currentTheme } from './core/theme.js';
import { Api } from './data/api.js';
import { forget, noauthSession, readMode, recall, remember } from './data/session.js';
import { loginView } from './views/login.js';
import { empty } from './views/parts.js';

const root = document.getElementById('app');
// The server's root is above this page: behind a proxy it may have a path.
const base = new URL('../', new URL('./', location.href));
let session = null;
const api = new Api(base, () => session?.token ?? '');

applyTheme(currentTheme());
start();

async function start() {
  try {
    const mode = await readMode(api);
    if (mode.auth === 'noauth') {
      open(noauthSession());
      return;
    }
    const known = recall();
    if (known) open(known);
    else showLogin(mode);
  } catch (error) {
    put(root, h('main', { class: 'boot' }, empty('The server does not answer', error instanceof Error ? error.message : '',
      h('button', { type: 'button', class: 'primary', on: { click: () => { put(root, h('p', { class: 'boot' }, 'Loading…')); start(); } } }, 'Try again'))));
  }
}

function showLogin(mode, message = '') {
  document.title = 'Log in – neutrino';
  put(root, loginView({
    api, message, defaultDomain: mode.default_domain,
    onLogin: (found) => { remember(found); open(found); },
  }));
}

function open(found) {
  session = found;
  const expired = () => { forget(); location.reload(); };
  new App({ api, session, onExpired: expired }).start(root);
}
