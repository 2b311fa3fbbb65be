/** Pure: positions of hosts on an ellipse, and lines between them. */

/**
 * @param {string[]} names
 * @param {{width: number, height: number}} size
 * @returns {Map<string, {x: number, y: number}>}
 */
export function ring(names, { width, height }) {
  const places = new Map();
  if (names.length === 1) return places.set(names[0], { x: width / 2, y: height / 2 });
  if (names.length === 2) {
    return places.set(names[0], { x: width * 0.25, y: height / 2 }).set(names[1], { x: width * 0.75, y: height / 2 });
  }
  const [rx, ry] = [width / 2 - 92, height / 2 - 38];
  names.forEach((name, at) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * at) / names.length;
    places.set(name, { x: Math.round(width / 2 + rx * Math.cos(angle)), y: Math.round(height / 2 + ry * Math.sin(angle)) });
  });
  return places;
}
