/** Announcements to screen readers, by the live region of the page. */

let timer = 0;

export function announce(text) {
  const region = document.getElementById('announcer');
  if (!region) return;
  clearTimeout(timer);
  region.textContent = '';
  // Changed a moment later: screen readers ignore a text that equals the previous one.
  timer = setTimeout(() => (region.textContent = text), 50);
}
