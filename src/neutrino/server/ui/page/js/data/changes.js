/** Pure functions on rows of the change log and on revisions: which objects have to be fetched again. */

/**
 * Ids by kind, each once, of the kinds that the page has.
 *
 * @param {{kind: string, object_id: string}[]} changes
 * @param {string[]} kinds
 * @returns {Map<string, string[]>}
 */
export function idsByKind(changes, kinds) {
  const found = new Map();
  for (const { kind, object_id: id } of changes) {
    if (!kinds.includes(kind)) continue;
    if (!found.has(kind)) found.set(kind, new Set());
    found.get(kind).add(id);
  }
  return new Map([...found].map(([kind, ids]) => [kind, [...ids]]));
}

/**
 * Ids whose object is new, gone, or has another revision or status than the known one.
 *
 * @param {Map<string, any>} known
 * @param {{id: string, revision_number?: number, status?: string}[]} listed
 */
export function differing(known, listed) {
  const ids = [];
  const seen = new Set();
  for (const row of listed) {
    seen.add(row.id);
    const own = known.get(row.id);
    if (!own || own.revision_number !== row.revision_number || own.status !== row.status) ids.push(row.id);
  }
  for (const id of known.keys()) if (!seen.has(id)) ids.push(id);
  return ids;
}

/**
 * Whether rows after this position have been removed from the change log, so that all lists must be read again. Of two
 * positions that a member gets, the later one may be the smaller number: nothing else may be concluded from them.
 */
export function isTooOld(position, answer) {
  return (answer.removed ?? 0) > position;
}
