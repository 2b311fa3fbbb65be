/** Packet traces: a form, the verdict with its cause, the steps, and the path on the graph. */

import { announce } from '../core/announce.js';
import { h, put } from '../core/dom.js';
import { clean, shortId } from '../core/format.js';
import { formatPlace } from '../core/hash.js';
import { icon } from '../core/icons.js';
import { ApiError } from '../data/api.js';
import { KINDS } from '../data/kinds.js';
import { isMember, portLabel } from '../data/topology.js';
import { PROTOCOLS, pathOfTrace, traceRequest } from '../data/trace.js';
import { data, link, notice } from './parts.js';

const OFFERED = 400;
const RESULTS = { pass: ['ok', 'passes'], drop: ['bad', 'dropped'], change: ['change', 'changed'], info: ['info', 'information'] };
const VERDICTS = { delivered: ['ok', 'Delivered'], dropped: ['bad', 'Dropped'], unknown: ['unknown', 'Unknown'] };

export class TraceView {
  /** @param {{api: any, store: any, canvas: any, nodeKey: (kind: string, id: string) => string}} options */
  constructor({ api, store, canvas, nodeKey }) {
    Object.assign(this, { api, store, canvas, nodeKey });
    this.labels = new Map(); // text in the form → id of a port
    this.choices = h('datalist', { id: 'trace-ports' });
    this.form = this.buildForm();
    this.result = h('div', { class: 'trace-result', 'aria-live': 'polite' });
    this.element = h('aside', { class: 'panel trace-panel', 'aria-label': 'Packet trace' },
      h('header', { class: 'panel-head' }, h('div', { class: 'grow' }, h('h2', {}, 'Trace a packet'),
        h('p', { class: 'muted' }, 'What happens to a packet now, step by step.'))),
      h('div', { class: 'panel-body' }, this.form, this.result));
  }

  buildForm() {
    const input = (name, label, hint, more = {}) => h(
      'label', { class: `field-${name}` }, h('span', {}, label),
      h('input', { name, type: 'text', placeholder: hint, autocomplete: 'off', spellcheck: 'false', ...more }),
      h('small', { class: 'field-error', id: `error-${name}` }),
    );
    const select = (name, label, options) => h(
      'label', { class: `field-${name}` }, h('span', {}, label),
      h('select', { name }, options.map(([value, text]) => h('option', { value }, text))),
    );
    const form = h('form', { class: 'trace-form', novalidate: true },
      this.choices,
      input('from', 'Source', 'port, address or “external”', { list: 'trace-ports' }),
      input('to', 'Destination', 'port or address', { list: 'trace-ports' }),
      h('div', { class: 'row' },
        select('protocol', 'Protocol', PROTOCOLS.map((name) => [name, name.toUpperCase()])),
        input('port', 'Port', '80', { inputmode: 'numeric' })),
      h('details', {}, h('summary', {}, 'More'),
        h(
          'div', { class: 'row' },
          select('version', 'IP version', [['', 'any'], ['4', 'IPv4'], ['6', 'IPv6']]),
          input('size', 'Packet size', '84', { inputmode: 'numeric' }),
        ),
        h('label', { class: 'check' }, h('input', { name: 'flows', type: 'checkbox' }), h('span', {}, 'Show flows and rules'))),
      h('button', { type: 'submit', class: 'primary' }, icon('trace'), 'Trace'));
    const ports = () => { form.querySelector('.field-port').hidden = form.elements.protocol.value === 'icmp'; };
    form.elements.protocol.addEventListener('change', ports);
    ports();
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    return form;
  }

  /** New data: the ports that the form offers. */
  update() {
    const ports = this.store.all('port').filter(isMember);
    this.labels.clear();
    for (const port of ports) this.labels.set(this.textOf(port), port.id);
    const texts = [...this.labels.keys()].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).slice(0, OFFERED);
    const key = texts.join('\n');
    if (key === this.offered) return;
    this.offered = key;
    put(this.choices, h('option', { value: 'external' }), texts.map((value) => h('option', { value })));
  }

  textOf(port) {
    const address = port.fixed_ips?.[0]?.ip_address;
    const label = portLabel(port);
    return `${label} (${address ?? shortId(port.id)})`;
  }

  /** Values of a deep link: ids of ports become their texts. */
  fill(params) {
    for (const name of ['from', 'to', 'protocol', 'port']) {
      if (!(name in params)) continue;
      const port = this.store.get('port', params[name]);
      this.form.elements[name].value = port ? this.textOf(port) : params[name];
    }
    this.form.elements.protocol.dispatchEvent(new Event('change'));
  }

  /** A click on a port of the graph fills the first end that is empty, else the destination. */
  pick(key) {
    const port = key.startsWith('port:') ? this.store.get('port', key.slice(5)) : null;
    if (!port) return;
    const { from, to } = this.form.elements;
    const target = from.value.trim() ? to : from;
    target.value = this.textOf(port);
    announce(`${target === from ? 'Source' : 'Destination'}: ${target.value}`);
  }

  findPort(text) {
    if (this.store.get('port', text)) return text;
    return this.labels.get(text) ?? null;
  }

  async submit() {
    const given = Object.fromEntries(new FormData(this.form));
    const { body, errors } = traceRequest(given, (text) => this.findPort(text));
    for (const element of this.form.querySelectorAll('input[type=text]')) {
      const text = errors[element.name] ?? '';
      this.form.querySelector(`#error-${element.name}`).textContent = text;
      element.toggleAttribute('aria-invalid', Boolean(text));
      if (text) element.setAttribute('aria-describedby', `error-${element.name}`);
    }
    const [wrong] = Object.keys(errors);
    if (wrong) {
      this.form.elements[wrong].focus();
      return;
    }
    const ends = { from: this.findPort(given.from) ?? given.from, to: this.findPort(given.to) ?? given.to };
    history.replaceState(
      null, '',
      formatPlace({ view: 'trace', params: { ...ends, protocol: given.protocol, port: given.protocol === 'icmp' ? '' : given.port } }),
    );
    const button = this.form.querySelector('[type=submit]');
    button.disabled = true;
    this.canvas.showPath(null);
    put(this.result, h('p', { class: 'muted busy' }, 'Asking the hosts on the path…'));
    try {
      const { trace } = await this.api.request('POST', 'v2.0/traces', { body });
      this.show(trace);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const missing = error.status === 404 && !/port|address|could not be found/i.test(error.message);
      put(this.result, notice(missing ? 'info' : 'bad', missing ? 'This server has no packet traces.' : error.message));
    } finally {
      button.disabled = false;
    }
  }

  show(trace) {
    const [name, word] = VERDICTS[trace.verdict] ?? VERDICTS.unknown;
    const networkOf = (key) => (key.startsWith('port:') ? `network:${this.store.get('port', key.slice(5))?.network_id ?? ''}` : '');
    this.canvas.showPath(pathOfTrace(trace, this.nodeKey, networkOf));
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

  texts(title, entries) {
    const lines = (Array.isArray(entries) ? entries : []).map((entry) => (typeof entry === 'string' ? entry : entry.text ?? JSON.stringify(entry)));
    return lines.length ? h(
      'section', { class: 'panel-section' }, h('h3', {}, title),
      h('ul', { class: 'plain' }, lines.map((line) => h('li', {}, data(line)))),
    ) : null;
  }

  steps(title, steps) {
    if (!steps?.length) return null;
    let host = null;
    return [title ? h('h3', {}, title) : null, h('ol', { class: 'steps' }, steps.map((step) => {
      const [name, word] = RESULTS[step.result] ?? RESULTS.info;
      const head = step.host && step.host !== host ? h('p', { class: 'step-host' }, icon('host'), data(step.host)) : null;
      host = step.host || host;
      const known = step.resource_type in KINDS && this.store.get(step.resource_type, step.resource_id);
      return h('li', { class: `step is-${name}` }, head, h('div', { class: 'step-line' }, h('span', { class: `state state-${name}` }, icon(name, word)),
        h('div', { class: 'grow' }, h('p', {}, data(step.text)),
          known ? link(step.resource_type, step.resource_id, step.resource_name) : step.resource_name ? h('small', { class: 'muted' }, data(step.resource_name)) : null,
          step.flows?.length ? h('pre', { class: 'flows' }, step.flows.map(clean).join('\n')) : null)));
    }))];
  }
}
