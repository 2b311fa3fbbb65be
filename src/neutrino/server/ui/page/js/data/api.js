/** Requests to the Networking API, with the caller's token. */

import { KINDS, answerKey } from './kinds.js';

const PAGE = 1000;
const IDS = 40; // ids in one request: addresses of requests have a limit
const SECONDS = 30;

/** @typedef {[string, string][]} Params */

export class ApiError extends Error {
  /** @param {number} status 0: no answer @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Api {
  /**
   * @param {URL} root of the server; behind a proxy it may have a path
   * @param {() => string} token empty without authentication
   */
  constructor(root, token) {
    this.root = root;
    this.token = token;
  }

  /** @param {string} path @param {Params} [params] @returns {Promise<any>} */
  get(path, params = []) {
    return this.request('GET', path, { params });
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{params?: Params, body?: any}} [options]
   * @returns {Promise<any>}
   */
  async request(method, path, { params = [], body = undefined } = {}) {
    const url = new URL(path, this.root);
    for (const [name, value] of params) url.searchParams.append(name, value);
    /** @type {Object<string, string>} */
    const headers = { Accept: 'application/json' };
    const token = this.token();
    if (token) headers['X-Auth-Token'] = token;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    /** @type {RequestInit} */
    const options = { method, headers, cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer' };
    let response;
    let content;
    try {
      const signal = AbortSignal.timeout(SECONDS * 1000);
      response = await fetch(url, { ...options, signal, body: body === undefined ? undefined : JSON.stringify(body) });
      content = await response.text();
    } catch (error) {
      const late = error instanceof DOMException && error.name === 'TimeoutError';
      throw new ApiError(0, late ? `The server did not answer within ${SECONDS} seconds.` : 'The server does not answer.');
    }
    if (!response.ok) throw new ApiError(response.status, messageOf(response, content));
    try {
      return content ? JSON.parse(content) : {};
    } catch {
      throw new ApiError(response.status, 'The answer is not JSON: it may come from a proxy.');
    }
  }

  /**
   * All objects of a kind that the caller may see, page by page.
   *
   * @param {string} kind
   * @param {{fields?: string[], filters?: Params, onPage?: (rows: any[], number: number) => void | Promise<void>}} [options] onPage: work with a page, before the next is asked for
   * @returns {Promise<any[]>}
   */
  async list(kind, { fields = KINDS[kind].fields, filters = [], onPage = () => {} } = {}) {
    const found = [];
    // In this order equal ids of networks stand together, and the answer is half as large when it is compressed.
    const order = kind === 'port' ? [/** @type {[string, string]} */ (['sort_key', 'network_id']), /** @type {[string, string]} */ (['sort_key', 'id'])] : [];
    /** @type {Params} */
    const asked = [...order, ...fields.map((field) => /** @type {[string, string]} */ (['fields', field])), ...filters, ['limit', String(PAGE)]];
    let marker = null;
    for (;;) {
      const answer = await this.get(`v2.0/${KINDS[kind].collection}`, marker ? [...asked, ['marker', marker]] : asked);
      const rows = answer[answerKey(kind)];
      found.push(...rows);
      await onPage(rows, found.length);
      const more = (answer[`${answerKey(kind)}_links`] ?? []).some((/** @type {any} */ link) => link.rel === 'next');
      if (!more || rows.length === 0) return found;
      marker = rows[rows.length - 1].id;
    }
  }

  /**
   * Objects by their ids; those that do not exist, or that the caller may not see, are missing.
   *
   * @param {string} kind
   * @param {string[]} ids
   */
  async listByIds(kind, ids) {
    const found = [];
    for (let at = 0; at < ids.length; at += IDS) {
      found.push(...(await this.list(kind, { filters: ids.slice(at, at + IDS).map((id) => /** @type {[string, string]} */ (['id', id])) })));
    }
    return found;
  }
}

/** @param {Response} response @param {string} content */
function messageOf(response, content) {
  try {
    const body = JSON.parse(content);
    const found = body.NeutronError ?? body.error ?? body;
    const message = typeof found === 'string' ? found : found.message;
    if (message) return String(message);
  } catch {
    // Not from the API itself, such as a proxy's page.
  }
  return `The server answered ${response.status} ${response.statusText}`.trim();
}
