/** The form of the login: password, application credential or token, and the choice of a project. */

import { announce } from '../core/announce.js';
import { h, put } from '../core/dom.js';
import { ApiError } from '../data/api.js';
import { logIn } from '../data/session.js';
import { notice } from './parts.js';

const METHODS = {
  password: ['Password', [
    ['user', 'User', 'text', 'username', true],
    ['password', 'Password', 'password', 'current-password', true],
    ['project', 'Project', 'text', 'off', false, 'your default project'],
    ['user_domain', 'User domain', 'text', 'off', false],
    ['project_domain', 'Project domain', 'text', 'off', false],
  ]],
  application_credential: ['Application credential', [
    ['credential_id', 'Credential ID', 'text', 'off', true],
    ['secret', 'Secret', 'password', 'off', true],
  ]],
  token: ['Token', [
    ['token', 'Token', 'password', 'off', true],
  ]],
};
const DOMAINS = ['user_domain', 'project_domain'];

/**
 * @param {{api: any, defaultDomain: string, message?: string, onLogin: (session: any) => void}} options
 */
export function loginView({ api, defaultDomain, message = '', onLogin }) {
  const form = h('form', { class: 'login-form', novalidate: true, autocomplete: 'on' });
  const page = h('main', { class: 'login' },
    h('div', { class: 'login-card' },
      h('div', { class: 'login-brand' }, h('img', { src: 'icon.svg', alt: '', width: 40, height: 40 }),
        h('div', {}, h('h1', {}, 'neutrino'), h('p', {}, 'Topology, health and packet traces'))),
      form));
  let method = 'password';
  let error = message;
  /** A login without a project, while one is chosen. @type {any} */
  let unscoped = null;

  function draw(focus = true) {
    const [, fields] = METHODS[method];
    put(form,
      h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'How to log in' },
        Object.entries(METHODS).map(([name, [title]]) => h('button', {
          type: 'button', role: 'tab', 'aria-selected': String(name === method), tabindex: name === method ? 0 : -1,
          on: { click: () => choose(name), keydown: onTabKey },
        }, title))),
      error ? h('div', { role: 'alert' }, notice('bad', error)) : null,
      fields.filter(([name]) => !DOMAINS.includes(name)).map(field),
      fields.some(([name]) => DOMAINS.includes(name))
        ? h('details', { class: 'login-domains' }, h('summary', {}, `Domains (${defaultDomain})`),
          fields.filter(([name]) => DOMAINS.includes(name)).map(field)) : null,
      h('button', { type: 'submit', class: 'primary' }, 'Log in'));
    if (focus) form.querySelector('input')?.focus();
  }

  function field([name, label, type, autocomplete, required, hint]) {
    const value = DOMAINS.includes(name) ? defaultDomain : '';
    return h('label', {}, h('span', {}, label, required ? '' : h('small', {}, ' optional')),
      h('input', { name, type, autocomplete, required, value, placeholder: hint, spellcheck: 'false', autocapitalize: 'none' }));
  }

  function choose(name) {
    method = name;
    error = '';
    draw();
  }

  function onTabKey(event) {
    const names = Object.keys(METHODS);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(names[(names.indexOf(method) + step + names.length) % names.length]);
    form.querySelector('[role=tab][aria-selected=true]').focus();
  }

  async function submit(credentials) {
    const button = form.querySelector('button[type=submit]');
    button.disabled = true;
    button.textContent = 'Logging in…';
    try {
      const session = await logIn(api, credentials);
      if (session.project_id || session.roles.length) onLogin(session);
      else chooseProject(session);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      error = failure.message;
      if (unscoped) { // the choice of a project stays, for another try
        chooseProject(unscoped, credentials.project_id);
        announce(error);
        return;
      }
      const kept = new FormData(form);
      draw(false);
      for (const [name, value] of kept) if (name !== 'password' && name !== 'secret') form.elements[name].value = value;
      (form.elements.password ?? form.querySelector('input'))?.focus();
      announce(error);
    }
  }

  /** @param {any} session @param {string} [chosen] */
  function chooseProject(session, chosen = '') {
    if (unscoped !== session) error = '';
    unscoped = session;
    const select = h('select', { name: 'project_id', required: true },
      session.projects.map((/** @type {any} */ { id, name }) => h('option', { value: id, selected: id === chosen }, name)));
    put(form, session.projects.length
      ? [error ? h('div', { role: 'alert' }, notice('bad', error)) : null,
        h('p', {}, `Logged in as ${session.user}. Choose a project:`), h('label', {}, h('span', {}, 'Project'), select),
        h('button', { type: 'submit', class: 'primary' }, 'Continue'),
        h('button', { type: 'button', class: 'button', on: { click: () => { unscoped = null; error = ''; draw(); } } }, 'Log in as another user')]
      : notice('warn', `The user ${session.user} has no role on any project.`));
    select.focus();
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    if (given.project_id) {
      submit({ method: 'token', token: unscoped.token, project_id: given.project_id });
      return;
    }
    const missing = [...form.querySelectorAll('input[required]')].find((input) => !input.value.trim());
    if (missing) {
      missing.setAttribute('aria-invalid', 'true');
      missing.focus();
      return;
    }
    submit({ method, ...given });
  });
  draw(false);
  queueMicrotask(() => form.querySelector('input')?.focus());
  return page;
}
