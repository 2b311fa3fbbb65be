/** Pan and zoom of a drawing: by pointer, wheel, touch, buttons and keys. */

const LEAST = 0.08;
const MOST = 2.5;

export class Viewport {
  /**
   * @param {SVGSVGElement} svg
   * @param {SVGGElement} content the part that is moved
   * @param {() => void} onMove
   */
  constructor(svg, content, onMove) {
    this.onMoved = onMove;
    this.svg = svg;
    this.content = content;
    this.x = 0;
    this.y = 0;
    this.k = 1;
    /** Whether the user has moved the drawing: until then it is fitted to the window. */
    this.touched = false;
    /** @type {Map<number, number[]>} */
    this.pointers = new Map();
    /** @type {{width: number, height: number} | null} */
    this.known = null;
    this.moved = 0;
    /** What is to be shown once the drawing is visible. @type {(() => void) | null} */
    this.waiting = null;
    // Asking for the size in each frame would cost a layout.
    new ResizeObserver(() => this.sized()).observe(svg);
    svg.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    svg.addEventListener('pointerdown', (event) => this.onDown(event));
    svg.addEventListener('pointermove', (event) => this.onMove(event));
    for (const name of ['pointerup', 'pointercancel', 'pointerleave']) svg.addEventListener(name, (event) => this.onUp(event));
    // The end of a drag is no click on the node below it.
    svg.addEventListener('click', (event) => this.moved > 4 && event.stopPropagation(), { capture: true });
  }

  size() {
    if (this.known) return this.known;
    const { width, height } = this.svg.getBoundingClientRect();
    const size = { width: width || 1, height: height || 1 };
    if (width) this.known = size;
    return size;
  }

  /** The drawing has another size, or is visible again: what it shows stays where it is, unless nothing was fitted yet. */
  sized() {
    this.known = null;
    this.size();
    if (!this.known) return;
    if (this.waiting) this.waiting();
    else this.onMoved();
  }

  apply() {
    // By its style, with will-change: the browser moves what it has painted, and paints nothing again.
    this.content.style.transform = `translate(${round(this.x)}px, ${round(this.y)}px) scale(${round(this.k, 4)})`;
    this.onMoved();
  }

  /** Shows all of it, at most at its natural size. */
  fit(bounds, padding = 36) {
    const { width, height } = this.size();
    this.waiting = this.known ? null : () => this.fit(bounds, padding);
    if (this.waiting || !bounds.w || !bounds.h) return;
    const scale = Math.min((width - 2 * padding) / bounds.w, (height - 2 * padding) / bounds.h, 1.15);
    this.k = clamp(scale, LEAST, MOST);
    this.x = (width - bounds.w * this.k) / 2 - bounds.x * this.k;
    // A small drawing stands in the upper part, where the eye begins.
    const spare = height - bounds.h * this.k;
    this.y = Math.max(padding, Math.min(spare / 2, spare * 0.3)) - bounds.y * this.k;
    if (spare < 2 * padding) this.y = spare / 2 - bounds.y * this.k;
    this.apply();
  }

  /** Moves a box into view, and closer if it is too small to read. */
  reveal({ x, y, w, h }, { center = false } = {}) {
    const { width, height } = this.size();
    if (this.k < 0.6) {
      this.k = 0.9;
      this.touched = true;
      center = true;
    }
    const [left, top] = [x * this.k + this.x, y * this.k + this.y];
    const [right, bottom] = [left + w * this.k, top + h * this.k];
    const margin = 24;
    if (center) {
      this.x = width / 2 - (x + w / 2) * this.k;
      this.y = height / 2 - (y + h / 2) * this.k;
    } else {
      this.x += shift(left, right, margin, width - margin);
      this.y += shift(top, bottom, margin, height - margin);
    }
    this.apply();
  }

  /** @param {number} factor @param {number[] | null} [at] */
  zoom(factor, at = null) {
    const { width, height } = this.size();
    const [cx, cy] = at ?? [width / 2, height / 2];
    const k = clamp(this.k * factor, LEAST, MOST);
    this.x = cx - ((cx - this.x) * k) / this.k;
    this.y = cy - ((cy - this.y) * k) / this.k;
    this.k = k;
    this.touched = true;
    this.apply();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.touched = true;
    this.apply();
  }

  at(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  onWheel(event) {
    event.preventDefault();
    if (event.shiftKey && !event.ctrlKey) {
      this.pan(-(event.deltaX || event.deltaY), 0);
      return;
    }
    const unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 200 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.0016;
    this.zoom(Math.exp(-clamp(event.deltaY * unit, -240, 240) * speed), this.at(event));
  }

  onDown(event) {
    if (event.button > 0) return;
    this.pointers.set(event.pointerId, this.at(event));
    if (this.pointers.size === 1) this.moved = 0;
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = this.at(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length === 1) {
      const [other] = others;
      const ratio = distance(now, other) / (distance(before, other) || 1);
      this.zoom(ratio, [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      this.moved += 10;
    } else {
      this.moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (this.moved > 4) {
        this.svg.setPointerCapture?.(event.pointerId);
        this.svg.classList.add('dragging');
        this.pan(now[0] - before[0], now[1] - before[1]);
      }
    }
    this.pointers.set(event.pointerId, now);
  }

  onUp(event) {
    this.pointers.delete(event.pointerId);
    if (this.pointers.size === 0) this.svg.classList.remove('dragging');
  }
}

/** How far a range has to be moved to be within another; of one that is too long the start is what matters. */
function shift(start, end, least, most) {
  if (start >= least && end <= most) return 0;
  if (start < least || end - start > most - least) return least - start;
  return most - end;
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

/** @param {number[]} a @param {number[]} b */
function distance([ax, ay], [bx, by]) {
  return Math.hypot(ax - bx, ay - by);
}

function round(value, digits = 2) {
  return Number(value.toFixed(digits));
}
