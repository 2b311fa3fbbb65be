/**
 * Creates elements. Texts become text nodes, so data is never parsed as HTML.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An HTML element. Attributes that are null, undefined or false are left out; `on` has event listeners by name.
 *
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the content of an element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}
