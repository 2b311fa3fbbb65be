/**
 * Creates elements, and updates them in place. Texts become text nodes, so data is never parsed as HTML.
 *
 * A view is drawn by building its elements anew and handing them to `patch`, which changes only what differs: elements that stay
 * keep focus, selection, scroll and open folds. Elements with a `data-key` are found again by it wherever they moved within
 * their parent; others by tag and place.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Child | Child[] | Child[][]} Children
 */

const SVG = 'http://www.w3.org/2000/svg';
const LISTENERS = Symbol('listeners');
/** Attributes that the user changes as well: set once, when the element is new. */
const FIRST_ONLY = new Set(['open', 'value', 'checked']);
/** Set by its property alone: the Content-Security-Policy forbids the attribute. */
const STYLE = 'style';

/**
 * An HTML element. Attributes that are null, undefined or false are left out; `on` has event listeners by name, which find the
 * element as `event.currentTarget`: the element that is shown may be an earlier one.
 *
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 *
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {any} element @param {Object<string, any>} attributes @param {any[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') listen(element, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

/** @param {any} element @param {Object<string, (event: any) => void>} listeners */
function listen(element, listeners) {
  const known = element[LISTENERS] ?? {};
  for (const name of Object.keys(listeners)) if (!(name in known)) element.addEventListener(name, dispatch);
  element[LISTENERS] = { ...Object.fromEntries(Object.keys(known).map((name) => [name, null])), ...listeners };
}

/** @param {any} event */
function dispatch(event) {
  event.currentTarget[LISTENERS][event.type]?.(event);
}

/** @param {any} element @param {any[]} children */
function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replaces the content of an element.
 *
 * @param {any} element
 * @param {...any} children
 */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * Changes the content of an element into these children, and keeps elements that stay the same ones. The content of an
 * element with `data-own` belongs to whoever made it: it is left alone, and told of the element that would replace it (`adopt`).
 *
 * @param {any} element
 * @param {...any} children
 */
export function patch(element, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  const focused = document.activeElement;
  morphChildren(element, next);
  // Chromium takes the focus from an element that is moved within its parent.
  if (focused && focused !== document.activeElement && focused !== document.body && element.contains(focused)) {
    /** @type {any} */ (focused).focus({ preventScroll: true });
  }
  return element;
}

/** @param {any} parent @param {any} next */
function morphChildren(parent, next) {
  const wanted = [...next.childNodes];
  const keyed = new Map();
  for (const child of parent.childNodes) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const node of wanted) {
    if (node === at) { // kept by its maker
      at = at.nextSibling;
      continue;
    }
    const key = keyOf(node);
    const known = key ? keyed.get(key) : at && !keyOf(at) && isSameKind(at, node) ? at : null;
    if (known && known !== node && isSameKind(known, node)) {
      if (known === at) at = at.nextSibling;
      else parent.insertBefore(known, at);
      morph(known, node);
    } else {
      parent.insertBefore(node, at);
    }
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
}

/** @param {any} node */
function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null;
}

/** @param {any} a @param {any} b */
function isSameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

/** @param {any} known @param {any} node */
function morph(known, node) {
  if (known.nodeType !== Node.ELEMENT_NODE) {
    if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
    return;
  }
  for (const { name } of [...known.attributes]) {
    if (!node.hasAttribute(name) && !FIRST_ONLY.has(name) && name !== STYLE) known.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (known.getAttribute(name) !== value && !FIRST_ONLY.has(name) && name !== STYLE) known.setAttribute(name, value);
  }
  if ((node.style?.length || known.style?.length) && known.style.cssText !== node.style.cssText) known.style.cssText = node.style.cssText;
  if (known[LISTENERS] || node[LISTENERS]) listen(known, node[LISTENERS] ?? {});
  if (node.hasAttribute('data-own')) known.adopt?.(node);
  else morphChildren(known, node);
}
