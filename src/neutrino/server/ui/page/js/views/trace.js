/** Packet traces: a form, the verdict with its cause, the steps, and the path on the graph. */

import { announce } from '../core/announce.js';
import { h, patch, put } from '../core/dom.js';
import { clean } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { ApiError } from '../data/api.js';
import { isListed } from '../data/kinds.js';
import { FIELDS, PROTOCOLS, findPorts, leadsBetween, nodeOfStep, pathOfTrace, portText, suggestions, traceRequest } from '../data/trace.js';
import { data, link, notice } from './parts.js';

const KEPT = 20; // answers, for Back and Forward
/** @type {Object<string, [string, string]>} */
const RESULTS = { pass: ['ok', 'passes'], drop: ['bad', 'dropped'], change: ['change', 'changed'], info: ['info', 'information'] };
/** @type {Object<string, [string, string]>} */
const VERDICTS = { delivered: ['ok', 'Delivered'], dropped: ['bad', 'Dropped'], unknown: ['unknown', 'Unknown'] };

export class TraceView {
  /**
   * @param {{api: import('../data/api.js').Api, derived: import('../data/derived.js').Derived, canvas: any,
   *   nodeKey: (kind: string, id: string) => string}} options
   */
  constructor({ api, derived, canvas, nodeKey }) {
    this.api = api;
    this.derived = derived;
    this.canvas = canvas;
    this.nodeKey = nodeKey;
    /** The answers by the link to them. @type {Map<string, any>} */
    this.answers = new Map();
    this.place = '';
    this.choices = h('datalist', { id: 'trace-ports' });
    this.form = this.buildForm();
    this.result = h('div', { class: 'trace-result', 'aria-live': 'polite' });
    this.element = h('aside', { class: 'panel trace-panel', 'aria-label': 'Packet trace' },
      h('header', { class: 'panel-head' }, h('div', { class: 'grow' }, h('h2', {}, 'Trace a packet'),
        h('p', { class: 'muted' }, 'What happens to a packet now, step by step.'))),
      h('div', { class: 'panel-body', tabindex: 0, role: 'region', 'aria-label': 'Trace' }, this.form, this.result));
  }

  buildForm() {
    const input = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ hint, /** @type {any} */ more = {}) => h(
      'label', { class: `field-${name}` }, h('span', {}, label),
      h('input', { name, type: 'text', placeholder: hint, autocomplete: 'off', spellcheck: 'false', ...more }),
      h('small', { class: 'field-error', id: `error-${name}` }),
    );
    const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => h(
      'label', { class: `field-${name}` }, h('span', {}, label),
      h('select', { name }, options.map(([value, text]) => h('option', { value }, text))),
    );
    const offer = { list: 'trace-ports', on: { input: (/** @type {any} */ event) => this.offer(event.currentTarget), focus: (/** @type {any} */ event) => this.offer(event.currentTarget) } };
    const form = h('form', { class: 'trace-form', novalidate: true },
      this.choices,
      input('from', 'Source', 'port, address or “external”', offer),
      input('to', 'Destination', 'port or address', offer),
      h('div', { class: 'row' },
        select('protocol', 'Protocol', PROTOCOLS.map((name) => [name, name.toUpperCase()])),
        input('port', 'Port', '80', { inputmode: 'numeric' })),
      h('details', { class: 'more' }, h('summary', {}, 'More'),
        h(
          'div', { class: 'row' },
          select('version', 'IP version', [['', 'any'], ['4', 'IPv4'], ['6', 'IPv6']]),
          input('size', 'Packet size', '84', { inputmode: 'numeric' }),
        ),
        h('label', { class: 'check' }, h('input', { name: 'flows', type: 'checkbox' }), h('span', {}, 'Show flows and rules'))),
      h('button', { type: 'submit', class: 'primary' }, icon('trace'), 'Trace'));
    this.ports = () => { form.querySelector('.field-port').hidden = form.elements.protocol.value === 'icmp'; };
    form.elements.protocol.addEventListener('change', this.ports);
    this.ports();
    form.addEventListener('submit', (/** @type {Event} */ event) => {
      event.preventDefault();
      this.submit();
    });
    return form;
  }

  /** @param {string} text */
  find(text) {
    return findPorts(text, this.derived.store.tables.port);
  }

  /** @param {any} port */
  textOf(port) {
    return portText(port, this.derived.store.tables, this.derived.projectName);
  }

  /** Offers ports for what is typed, of all ports. @param {any} field */
  offer(field) {
    const texts = suggestions(field.value.replace(/ \(.*$/, ''), this.derived.store.tables.port).map((port) => this.textOf(port));
    patch(this.choices, h('option', { value: 'external' }), texts.map((value) => h('option', { value })));
  }

  /**
   * Shows the trace of a place: fills the form, and runs the trace unless its answer is known.
   *
   * @param {Object<string, string>} params
   */
  open(params) {
    const place = this.placeOf(params);
    if (place === this.place) return;
    this.place = place;
    const { elements } = this.form;
    for (const name of FIELDS) {
      if (name === 'flows') elements.flows.checked = Boolean(params.flows);
      else if (elements[name].tagName === 'SELECT') elements[name].value = params[name] ?? elements[name].options[0].value;
      else elements[name].value = this.textOfEnd(name, params[name] ?? '');
    }
    if (params.size || params.version || params.flows) this.form.querySelector('details').open = true;
    this.ports?.();
    this.showErrors({});
    this.clear();
    const known = this.answers.get(place);
    if (known) this.show(known);
    else if (params.from && params.to) this.run();
  }

  /** @param {string} name @param {string} value */
  textOfEnd(name, value) {
    const port = name === 'from' || name === 'to' ? this.derived.store.get('port', value) : null;
    return port ? this.textOf(port) : value;
  }

  /** @param {Object<string, string>} params */
  placeOf(params) {
    return formatPlace({ view: 'trace', params: Object.fromEntries(FIELDS.map((name) => [name, params[name] ?? ''])) });
  }

  clear() {
    put(this.result);
    this.canvas.showPath(null);
  }

  /** A click on a port of the graph fills the first end that is empty, else the destination. @param {string} key */
  pick(key) {
    const port = key.startsWith('port:') ? this.derived.store.get('port', key.slice(5)) : null;
    if (!port) return;
    const { from, to } = this.form.elements;
    const target = from.value.trim() ? to : from;
    target.value = this.textOf(port);
    announce(`${target === from ? 'Source' : 'Destination'}: ${target.value}`);
  }

  /** @param {Object<string, string>} errors */
  showErrors(errors) {
    for (const element of this.form.querySelectorAll('input[type=text]')) {
      const text = errors[element.name] ?? '';
      this.form.querySelector(`#error-${element.name}`).textContent = text;
      if (text) {
        element.setAttribute('aria-invalid', 'true');
        element.setAttribute('aria-describedby', `error-${element.name}`);
      } else {
        element.removeAttribute('aria-invalid');
        element.removeAttribute('aria-describedby');
      }
    }
    const [wrong] = Object.keys(errors);
    if (wrong) this.form.elements[wrong].focus();
    return Boolean(wrong);
  }

  given() {
    return /** @type {Object<string, any>} */ (Object.fromEntries(new FormData(this.form)));
  }

  /** The place of what the form asks: it has ids, not names. */
  submit() {
    const given = this.given();
    const { body: { trace }, errors } = traceRequest(given, (text) => this.find(text));
    if (this.showErrors(errors)) {
      this.clear();
      return;
    }
    const params = {
      from: trace.source_port_id ?? trace.source_address ?? trace.source,
      to: trace.destination_port_id ?? trace.destination_address,
      protocol: trace.protocol, port: trace.destination_port ?? '', size: given.size, version: given.version, flows: trace.flows ? '1' : '',
    };
    const place = this.placeOf(params);
    this.answers.delete(place);
    if (formatPlace({ view: 'trace', params }) === location.hash) {
      this.place = place;
      this.run();
    } else {
      location.hash = place;
    }
  }

  async run() {
    const { place } = this;
    const { body, errors } = traceRequest(this.given(), (text) => this.find(text));
    if (this.showErrors(errors)) return;
    const button = this.form.querySelector('[type=submit]');
    button.disabled = true;
    this.canvas.showPath(null);
    put(this.result, h('p', { class: 'muted busy' }, 'Asking the hosts on the path…'));
    try {
      const { trace } = await this.api.request('POST', 'v2.0/traces', { body });
      this.answers.set(place, trace);
      if (this.answers.size > KEPT) this.answers.delete(/** @type {string} */ (this.answers.keys().next().value));
      if (place === this.place) this.show(trace);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (place !== this.place) return;
      const missing = error.status === 404 && !/port|address|could not be found/i.test(error.message);
      put(this.result, notice(missing ? 'info' : 'bad', missing ? 'This server has no packet traces.' : error.message));
    } finally {
      button.disabled = false;
    }
  }

  /** @param {any} trace */
  show(trace) {
    const [name, word] = VERDICTS[trace.verdict] ?? VERDICTS.unknown;
    const { store, topology } = this.derived;
    this.canvas.showPath(pathOfTrace(trace, {
      nodeOf: nodeOfStep(store, this.nodeKey), between: leadsBetween(topology, (id) => store.get('port', id)),
    }));
    put(this.result,
      h(
        'div', { class: `verdict is-${name}` }, icon(name),
        h(
          'div', {}, h('strong', {}, word),
          trace.cause ? h('code', {}, clean(trace.cause)) : null,
          trace.summary ? h('p', {}, data(trace.summary)) : null,
          Object.values(trace.fixes ?? {}).map((fix) => h('p', { class: 'fix' }, h('b', {}, 'Fix: '), data(fix))),
        ),
      ),
      trace.agreement === false ? notice(
        'warn', 'The hosts differ from what the server computed. The answer of the hosts counts.',
      ) : null,
      this.texts('Differences', trace.differences), this.texts('Drift', trace.drift), this.texts('Lag', trace.lag),
      this.steps('Path', trace.steps), this.returnPath(trace));
  }

  /** @param {any} trace */
  returnPath(trace) {
    if (!trace.return_steps?.length && !trace.return_verdict) return null;
    const [name, word] = VERDICTS[trace.return_verdict] ?? VERDICTS.unknown;
    return h(
      'details', { class: 'fold', open: trace.return_verdict === 'dropped' },
      h(
        'summary', {}, `Way back: ${word.toLowerCase()}`,
        trace.return_cause ? ` (${clean(trace.return_cause)})` : '',
        h('span', { class: `state state-${name}` }, icon(name)),
      ),
      this.steps('', trace.return_steps),
    );
  }

  /** @param {string} title @param {any} entries */
  texts(title, entries) {
    const lines = (Array.isArray(entries) ? entries : []).map((entry) => (typeof entry === 'string' ? entry : entry.text ?? JSON.stringify(entry)));
    return lines.length ? h(
      'section', { class: 'panel-section' }, h('h3', {}, title),
      h('ul', { class: 'plain' }, lines.map((line) => h('li', {}, data(line)))),
    ) : null;
  }

  /** Numbered as on the graph. @param {string} title @param {any[]} steps */
  steps(title, steps) {
    if (!steps?.length) return null;
    /** @type {string | null} */
    let host = null;
    return [title ? h('h3', {}, title) : null, h('ol', { class: `steps${title ? ' numbered' : ''}` }, steps.map((step, at) => {
      const [name, word] = RESULTS[step.result] ?? RESULTS.info;
      const head = step.host && step.host !== host ? h('p', { class: 'step-host' }, icon('host'), data(step.host)) : null;
      host = step.host || host;
      const known = isListed(step.resource_type ?? '') && this.derived.store.get(step.resource_type, step.resource_id);
      return h('li', { class: `step is-${name}` }, head, h('div', { class: 'step-line' },
        h('span', { class: 'step-number', 'aria-hidden': 'true' }, String(at + 1)), h('span', { class: `state state-${name}` }, icon(name, word)),
        h('div', { class: 'grow' }, h('p', {}, data(step.text)),
          known ? link(step.resource_type, step.resource_id, step.resource_name) : step.resource_name ? h('small', { class: 'muted' }, data(step.resource_name)) : null,
          step.flows?.length ? h('pre', { class: 'flows', tabindex: 0 }, step.flows.map(clean).join('\n')) : null)));
    }))];
  }
}
