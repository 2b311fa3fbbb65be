/** The search field: a combobox with the objects that match. */

import { h, put } from '../core/dom.js';
import { count } from '../core/format.js';
import { formatPlace, linkTo } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { TITLES } from '../data/kinds.js';
import { search } from '../data/search.js';
import { data } from './parts.js';

/** @param {() => import('../data/search.js').Searched} searched @param {(href: string) => void} onGo */
export function searchBox(searched, onGo) {
  let results = [];
  let active = -1;
  const list = h('ul', { id: 'search-results', role: 'listbox', 'aria-label': 'Objects', hidden: true });
  const input = h('input', {
    type: 'search', placeholder: 'Name, address, MAC, id, host, project', 'aria-label': 'Search objects', role: 'combobox', 'aria-expanded': 'false',
    'aria-controls': 'search-results', 'aria-autocomplete': 'list', autocomplete: 'off', spellcheck: 'false',
    'aria-keyshortcuts': '/', name: 'search',
  });
  const status = h('span', { class: 'visually-hidden', role: 'status' });

  function draw() {
    const open = input.value.trim() !== '' && document.activeElement === input;
    list.hidden = !open;
    input.setAttribute('aria-expanded', String(open));
    if (active >= 0) input.setAttribute('aria-activedescendant', `search-${active}`);
    else input.removeAttribute('aria-activedescendant');
    put(list, results.map(({ kind, title, text }, number) => h('li', {
      id: `search-${number}`, role: 'option', 'aria-selected': String(number === active),
      on: { pointerdown: (event) => event.preventDefault(), click: () => go(number) },
    }, icon(kind), h('span', { class: 'grow' }, data(title)), h('small', {}, data(text)), h('small', { class: 'kind' }, TITLES[kind]))),
    open && !results.length ? h('li', { class: 'none' }, 'Nothing matches.') : null);
    list.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }

  function go(number) {
    const found = results[number];
    if (!found) return;
    onGo(found.kind === 'project' ? formatPlace({ view: 'topology', params: { project: found.id } }) : linkTo(found.kind, found.id));
    input.value = '';
    input.blur();
    draw();
  }

  input.addEventListener('input', () => {
    results = search(searched(), input.value);
    active = results.length ? 0 : -1;
    status.textContent = input.value.trim() ? count(results.length, 'result') : '';
    draw();
  });
  input.addEventListener('blur', draw);
  input.addEventListener('focus', draw);
  input.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') active = Math.min(results.length - 1, active + 1);
    else if (event.key === 'ArrowUp') active = Math.max(0, active - 1);
    else if (event.key === 'Enter') go(active);
    else if (event.key === 'Escape') { input.value = ''; input.blur(); } else return;
    event.preventDefault();
    draw();
  });
  document.addEventListener('keydown', (event) => {
    const editing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? '');
    if (event.key === '/' && !editing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    }
  });
  return h('div', { class: 'search', role: 'search' }, icon('search'), input, list, status);
}
