/** Pure arithmetic on addresses and ranges, with BigInt: an IPv6 subnet has more addresses than a number can count. */

/** @returns {bigint | null} */
export function parseAddress(text) {
  if (typeof text !== 'string') return null;
  return text.includes(':') ? parseSix(text) : parseFour(text);
}

function parseFour(text) {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (!match || match.slice(1).some((part) => Number(part) > 255)) return null;
  return match.slice(1).reduce((sum, part) => sum * 256n + BigInt(part), 0n);
}

function parseSix(text) {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const groups = halves.map((half) => (half ? half.split(':') : []));
  const last = groups.at(-1).at(-1) ?? '';
  if (last.includes('.')) {
    const four = parseFour(last);
    if (four === null) return null;
    groups.at(-1).splice(-1, 1, (four >> 16n).toString(16), (four & 0xffffn).toString(16));
  }
  const given = groups.reduce((sum, half) => sum + half.length, 0);
  if (halves.length === 1 ? given !== 8 : given > 7) return null;
  const filled = halves.length === 1 ? groups[0] : [...groups[0], ...Array(8 - given).fill('0'), ...groups[1]];
  if (filled.some((part) => !/^[0-9a-f]{1,4}$/i.test(part))) return null;
  return filled.reduce((sum, part) => sum * 65536n + BigInt(`0x${part}`), 0n);
}

export function isAddress(text) {
  return parseAddress(text) !== null;
}

/** The number of addresses in allocation pools. */
export function poolSize(pools) {
  let sum = 0n;
  for (const { start, end } of pools ?? []) {
    const [first, last] = [parseAddress(start), parseAddress(end)];
    if (first !== null && last !== null && last >= first) sum += last - first + 1n;
  }
  return sum;
}
