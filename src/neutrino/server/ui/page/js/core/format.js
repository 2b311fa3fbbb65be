/** Pure functions that turn values into texts. */

// Controls, and characters that change the direction of the text around them.
const UNSHOWN = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text of the API on one line: names may contain any character. */
export function clean(text) {
  return String(text ?? '').replace(UNSHOWN, '').trim();
}

export function shortId(id) {
  const text = clean(id);
  return /^[0-9a-f]{8}-?[0-9a-f]{4}/i.test(text) ? text.slice(0, 8) : text;
}

/** The name of an object, or the start of its id. */
export function nameOf(object) {
  return clean(object.name) || clean(object.floating_ip_address) || shortId(object.id);
}

/** 1 network, 2 networks */
export function count(number, singular, plural = `${singular}s`) {
  return `${group(number)} ${number === 1 ? singular : plural}`;
}

/** Digits in groups of three; BigInt too. */
export function group(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** @type {[string, bigint][]} */
const UNITS = [['T', 10n ** 12n], ['G', 10n ** 9n], ['M', 10n ** 6n], ['k', 1000n]];

/** A large number with three digits at most, such as 65.5k; beyond that as a power of two. */
export function compact(number) {
  const value = typeof number === 'bigint' ? number : BigInt(Math.trunc(number));
  if (value < 10_000n) return group(value);
  for (const [unit, size] of UNITS) {
    if (value >= size * 1000n) break;
    if (value >= size) return `${(Number((value * 10n) / size) / 10).toString()}${unit}`;
  }
  return `2${superscript(value.toString(2).length - 1)}`;
}

function superscript(number) {
  return [...String(number)].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]).join('');
}

/** How long ago, from milliseconds. */
export function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 2) return 'now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return count(Math.floor(seconds / 86400), 'day') + ' ago';
}

/** The time of the API: '2026-01-01 10:00:00' and '2026-01-01T10:00:00Z' are UTC. Milliseconds, or null. */
export function parseTime(text) {
  if (!text) return null;
  const plain = String(text).replace(' ', 'T');
  const time = Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(plain) ? plain : `${plain}Z`);
  return Number.isNaN(time) ? null : time;
}

/** The start of a text, with an ellipsis, that is at most `width` wide by `measure`. Never splits a character. */
export function truncate(text, width, measure) {
  if (measure(text) <= width) return text;
  const parts = [...new Intl.Segmenter().segment(text)].map((part) => part.segment);
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(`${parts.slice(0, middle).join('')}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return `${parts.slice(0, low).join('').trimEnd()}…`;
}

/** The values of an attribute, for people. */
export function shown(value) {
  if (value === null || value === undefined || value === '') return '–';
  if (value === true) return 'yes';
  if (value === false) return 'no';
  if (Array.isArray(value)) return value.length ? value.map(shown).join(', ') : '–';
  if (typeof value === 'object') return JSON.stringify(value);
  return clean(value);
}
