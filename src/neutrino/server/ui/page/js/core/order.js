/** The order of names as people expect it: net2 before net10. One collator, because making one takes a millisecond. */

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const ASCII = /^[\x20-\x7e]*$/;

/** @param {string} a @param {string} b */
export function compareText(a, b) {
  return collator.compare(a, b);
}

/** @param {{name: string, id: string}} a @param {{name: string, id: string}} b */
export function byName(a, b) {
  return collator.compare(a.name, b.name) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/**
 * Sorted by a text, then by id. Keys are made once for each item: a collator takes a tenth of a second for 10,000 names. It is
 * used if a text has characters beyond ASCII.
 *
 * @template T
 * @param {T[]} items
 * @param {(item: T) => string} textOf
 * @param {(item: T) => string} idOf
 * @returns {T[]}
 */
export function sortedBy(items, textOf, idOf) {
  const rows = items.map((item) => ({ item, text: textOf(item), id: idOf(item) }));
  if (rows.every(({ text }) => ASCII.test(text))) {
    for (const row of rows) row.text = naturalKey(row.text);
    rows.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.id < b.id ? -1 : 1));
  } else {
    rows.sort((a, b) => collator.compare(a.text, b.text) || (a.id < b.id ? -1 : 1));
  }
  return rows.map(({ item }) => item);
}

/** Keys of texts: a table sorts the same names again and again. @type {Map<string, string>} */
const keys = new Map();
const MOST_KEYS = 50_000;

/** @param {string} text */
function naturalKey(text) {
  let key = keys.get(text);
  if (key === undefined) {
    key = makeKey(text);
    if (keys.size >= MOST_KEYS) keys.clear();
    keys.set(text, key);
  }
  return key;
}

/** @param {string} text */
function makeKey(text) {
  return text.toLowerCase().replace(/\d+/g, (digits) => {
    const plain = digits.replace(/^0+(?=\d)/, '');
    return String.fromCharCode(0x30 + Math.min(plain.length, 60)) + plain;
  });
}
