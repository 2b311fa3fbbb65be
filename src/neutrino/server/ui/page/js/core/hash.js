/**
 * The place in the page as the hash of its address: #/view?name=value&… Deep links, and the browser's history.
 *
 * @typedef {{view: string, params: Object<string, string>}} Place
 */

export const VIEWS = ['topology', 'ports', 'networks', 'routers', 'hosts', 'subnets', 'health', 'timeline', 'trace'];

/** @param {string} hash @returns {Place} */
export function parsePlace(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const view = VIEWS.includes(path) ? path : VIEWS[0];
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {Place} place */
export function formatPlace({ view, params }) {
  const given = Object.entries(params).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ''}`;
}

/**
 * A link to an object: `select` is kind:id. Hosts and agents are shown in the view of hosts, the rest in the topology.
 *
 * @param {string} kind
 * @param {string} id
 * @param {Object<string, string>} [params]
 */
export function linkTo(kind, id, params = {}) {
  const view = kind === 'host' || kind === 'agent' ? 'hosts' : 'topology';
  return formatPlace({ view, params: { ...params, select: `${kind}:${id}` } });
}

const SELECTABLE = new Set(['network', 'subnet', 'router', 'port', 'floatingip', 'security_group', 'agent', 'host']);

/**
 * The object that a place selects. Of a kind that does not exist it is `object`, of which there is none.
 *
 * @param {string | undefined} text
 * @returns {{kind: string, id: string} | null}
 */
export function parseSelection(text) {
  const at = (text ?? '').indexOf(':');
  if (!text || at <= 0) return null;
  const kind = text.slice(0, at);
  return { kind: SELECTABLE.has(kind) ? kind : 'object', id: text.slice(at + 1) };
}
