/** Rates that hosts report, in words and as points of a line. Pure. */

/**
 * @typedef {{at: number, bitsIn: number, bitsOut: number, drops: number}} Sample
 */

/** @param {number[][]} samples @param {string[]} columns @returns {Sample[]} */
export function samplesOf(samples, columns) {
  const place = (/** @type {string} */ name) => columns.indexOf(name);
  const [at, bitsIn, bitsOut, dropsIn, dropsOut] = ['at', 'bits_in', 'bits_out', 'drops_in', 'drops_out'].map(place);
  return samples.map((row) => ({ at: row[at], bitsIn: row[bitsIn], bitsOut: row[bitsOut], drops: row[dropsIn] + row[dropsOut] }));
}

/** 812000 → "812 kbit/s" @param {number} bits */
export function rateText(bits) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([['Gbit/s', 1e9], ['Mbit/s', 1e6], ['kbit/s', 1e3]])) {
    if (bits >= size) return `${Number((bits / size).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(bits)} bit/s`;
}

/**
 * The points of a line, the highest at the top. All lines of a picture have one scale.
 *
 * @param {number[]} values
 * @param {{width: number, height: number, most: number}} size
 */
export function pointsOf(values, { width, height, most }) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((value, at) => `${(at * step).toFixed(1)},${(height - (most ? (value / most) * height : 0)).toFixed(1)}`).join(' ');
}
