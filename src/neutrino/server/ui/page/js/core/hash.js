/**
 * The place in the page as the hash of its address: #/view?name=value&… Deep links, and the browser's history.
 *
 * @typedef {{view: string, params: Object<string, string>}} Place
 */

export const VIEWS = ['topology', 'hosts', 'health', 'subnets', 'trace'];

/** @returns {Place} */
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

/** A link to an object: `select` is kind:id. Hosts and agents are shown in the view of hosts, the rest in the topology. */
export function linkTo(kind, id, params = {}) {
  const view = kind === 'host' || kind === 'agent' ? 'hosts' : 'topology';
  return formatPlace({ view, params: { ...params, select: `${kind}:${id}` } });
}

/** @returns {{kind: string, id: string} | null} */
export function parseSelection(text) {
  const at = (text ?? '').indexOf(':');
  return at > 0 ? { kind: text.slice(0, at), id: text.slice(at + 1) } : null;
}
