/** Icons as SVG paths on a grid of 16 × 16. Status icons differ in shape, so that colour is never needed to tell them. */

import { s } from './dom.js';

/** @type {Object<string, string[]>} */
const PATHS = {
  external: ['M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13', 'M1.800 8h12.400', 'M8 1.500c2.200 1.900 3 4 3 6.500s-.8 4.600-3 6.500c-2.200-1.900-3-4-3-6.500s.8-4.600 3-6.500'],
  router: ['M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13', 'M8 3.500v9', 'M3.500 8h9', 'M6.500 5 8 3.500 9.500 5', 'M6.500 11 8 12.500 9.500 11', 'M5 6.500 3.500 8 5 9.500', 'M11 6.500 12.500 8 11 9.500'],
  network: ['M6 1.800h4v3.400H6z', 'M1.500 10.800h4v3.400h-4z', 'M10.500 10.800h4v3.400h-4z', 'M8 5.200V8', 'M3.500 10.800V8h9v2.800'],
  subnet: ['M2 3.500h12v9H2z', 'M2 8h12', 'M6 3.500v9'],
  port: ['M2.500 3h11v8h-11z', 'M5.500 14h5', 'M8 11v3'],
  floatingip: ['M8 14V4', 'M4.500 7 8 3.500 11.500 7', 'M4 14h8'],
  security_group: ['M8 1.500 13.500 3.500v4c0 3.400-2.300 5.900-5.500 7-3.200-1.100-5.500-3.600-5.500-7v-4z'],
  host: ['M2 2.500h12v4.500H2z', 'M2 9h12v4.500H2z', 'M4.500 4.750h.01', 'M4.500 11.250h.01', 'M8 4.750h3.500', 'M8 11.250h3.500'],
  agent: ['M4 5.500h8v7H4z', 'M8 2.500v3', 'M6.500 8.500v1', 'M9.500 8.500v1', 'M2 8v2.500', 'M14 8v2.500'],
  project: ['M1.500 4h4.500l1.500 2h7v7.500h-13z'],
  cluster: ['M2 6h8v8H2z', 'M4 6V4h8v8h-2', 'M6 4V2h8v8h-2'],
  ok: ['M3 8.500 6.500 12 13 4.500'],
  warn: ['M8 2 14.500 13.500h-13z', 'M8 6.500v3.300', 'M8 11.700h.01'],
  bad: ['M4 4l8 8', 'M12 4l-8 8'],
  unknown: ['M5.500 6a2.500 2.500 0 1 1 3.600 2.200c-.8.400-1.100.8-1.100 1.600', 'M8 12.500h.01'],
  off: ['M4 8h8'],
  info: ['M8 7.500v4', 'M8 4.700h.01', 'M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13'],
  change: ['M2.500 6.500h9L9 4', 'M13.500 9.500h-9L7 12'],
  search: ['M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9', 'M10.300 10.300 14 14'],
  close: ['M4 4l8 8', 'M12 4l-8 8'],
  plus: ['M8 3.500v9', 'M3.500 8h9'],
  minus: ['M3.500 8h9'],
  fit: ['M2.500 6V2.500H6', 'M10 2.500h3.500V6', 'M13.500 10v3.500H10', 'M6 13.500H2.500V10'],
  collapse: ['M4 9.500 8 5.500l4 4'],
  expand: ['M4 6.500l4 4 4-4'],
  right: ['M6 4l4 4-4 4'],
  topology: ['M6 1.800h4v3.400H6z', 'M1.500 10.800h4v3.400h-4z', 'M10.500 10.800h4v3.400h-4z', 'M8 5.200V8', 'M3.500 10.800V8h9v2.800'],
  hosts: ['M2 2.500h12v4.500H2z', 'M2 9h12v4.500H2z', 'M4.500 4.750h.01', 'M4.500 11.250h.01'],
  health: ['M1.500 8.500h3l2-5 3 9 2-4h3'],
  subnets: ['M2 4h12', 'M2 8h8', 'M2 12h5'],
  trace: ['M3 12.500a1.500 1.500 0 1 0 0-.01', 'M13 3.500a1.500 1.500 0 1 0 0-.01', 'M4.500 12.500h4a2 2 0 0 0 2-2v-5a2 2 0 0 1 1-1.700'],
  system: ['M2 3h12v8H2z', 'M5.500 13.500h5'],
  light: ['M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6', 'M8 1v1.500', 'M8 13.500V15', 'M1 8h1.500', 'M13.500 8H15', 'M3 3l1 1', 'M12 12l1 1', 'M3 13l1-1', 'M12 4l1-1'],
  dark: ['M13.500 9.800A6 6 0 0 1 6.200 2.500a6 6 0 1 0 7.300 7.300'],
  logout: ['M6.500 2.500h-4v11h4', 'M6 8h8', 'M11 5l3 3-3 3'],
  copy: ['M5.500 5.500h8v8h-8z', 'M10.500 5.500v-3h-8v8h3'],
  key: ['M10.500 2a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7', 'M8 8l-6 6', 'M4.500 11.500l2 2'],
  live: ['M8 6.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3', 'M4.800 11.200a4.500 4.500 0 0 1 0-6.400', 'M11.200 4.800a4.500 4.500 0 0 1 0 6.400'],
};

/** An icon of its own; decorative unless it has a title. */
export function icon(name, title = '') {
  const attributes = { viewBox: '0 0 16 16', class: `icon icon-${name}` };
  if (title) return s('svg', { ...attributes, role: 'img', 'aria-label': title }, s('title', {}, title), paths(name));
  return s('svg', { ...attributes, 'aria-hidden': 'true' }, paths(name));
}

/** The paths of an icon, to be placed in a drawing. */
export function paths(name) {
  return (PATHS[name] ?? PATHS.unknown).map((d) => s('path', { d }));
}

export const ICON_NAMES = Object.keys(PATHS);
