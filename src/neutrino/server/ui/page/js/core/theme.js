/** Light or dark: as the system prefers, unless the user has chosen. */

const KEY = 'neutrino-theme';
const CHOICES = ['system', 'light', 'dark'];

export function currentTheme() {
  try {
    const stored = localStorage.getItem(KEY) ?? '';
    return CHOICES.includes(stored) ? stored : 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme(theme) {
  if (theme === 'system') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage is switched off: the choice lasts until the page is closed.
  }
}

export function nextTheme(theme) {
  return CHOICES[(CHOICES.indexOf(theme) + 1) % CHOICES.length];
}
