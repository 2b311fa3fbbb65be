/**
 * The login: kept in the storage of this tab, forgotten with it; never in a cookie or in an address.
 *
 * @typedef {{auth: 'noauth' | 'keystone', token: string, user: string, project: string | null, project_id: string | null,
 *   roles: string[], expires_at: string, projects: {id: string, name: string}[]}} Session
 */

const KEY = 'neutrino-session';
const NOAUTH = { auth: 'noauth', token: '', user: '', project: null, project_id: null, roles: ['admin'], expires_at: '', projects: [] };

/** How the server authenticates: { auth, default_domain } */
export function readMode(api) {
  return api.get('ui/session');
}

export function noauthSession() {
  return { ...NOAUTH };
}

/** @returns {Promise<Session>} */
export async function logIn(api, credentials) {
  const found = await api.request('POST', 'ui/login', { body: credentials });
  return { auth: 'keystone', ...found };
}

export function remember(session) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(session));
  } catch {
    // Storage is switched off: the login lasts until the page is reloaded.
  }
}

export function recall(now = Date.now()) {
  try {
    const session = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    if (!session?.token || (session.expires_at && Date.parse(session.expires_at) <= now)) return null;
    return session;
  } catch {
    return null;
  }
}

export function forget() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // There is nothing to remove.
  }
}

/** Whether the caller probably sees all projects. The API decides; this only chooses words. */
export function isAdmin(session) {
  return session.roles.some((role) => role.toLowerCase() === 'admin');
}
