"""Login of the page at Keystone, on behalf of the browser: Keystone answers no requests of other sites' pages (CORS).

The credentials go to Keystone's v3 API and nowhere else: they are neither logged nor kept. The browser gets the token, and
sends it with every request of the API as any other client does.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg

from neutrino.model.objects import Object

if TYPE_CHECKING:  # keystoneauth1 takes long to load
    from keystoneauth1.access import AccessInfo
    from keystoneauth1.identity.v3 import Auth
    from keystoneauth1.session import Session as KeystoneSession

LOG = logging.getLogger(__name__)
GROUP = "keystone_authtoken"
SECONDS = 15.0  # for a whole login, which has up to five requests to Keystone
REQUEST_SECONDS = 12.0  # for its requests together: a login whose lists of projects are late succeeds without them
MAX_PROJECTS = 2_000
DEFAULT_DOMAIN = "default"  # id of the domain that keystone-manage bootstrap creates, with the name Default


class Refused(Exception):
    """Keystone does not accept the credentials. The text says nothing about which of them is wrong."""


class Unavailable(Exception):
    """Keystone cannot be asked."""


class Credentials(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of the login form. Domains and projects are names; project_id precedes the project's name."""

    method: str  # "password", "token" or "application_credential"
    user: str = ""
    password: str = ""
    user_domain: str = ""
    project: str = ""
    project_domain: str = ""
    project_id: str = ""
    token: str = ""
    credential_id: str = ""
    secret: str = ""

    def __post_init__(self) -> None:
        self.token = self.token.strip()  # pasted, often with a line break
        if not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token has characters that a header cannot have")
        required = {
            "password": {"user": self.user, "password": self.password},
            "token": {"token": self.token},
            "application_credential": {"credential_id": self.credential_id, "secret": self.secret},
        }
        if self.method not in required:
            raise ValueError(f"method is one of {', '.join(required)}")
        for name, value in required[self.method].items():
            if not value:
                raise ValueError(f"{name} is missing")


class LoginSession(msgspec.Struct, kw_only=True):
    """A login. Without a project, the token has no scope, and `projects` are those to choose from."""

    token: str
    expires_at: str
    user: str
    user_id: str
    project: str | None
    project_id: str | None
    roles: list[str]
    projects: list[dict[str, str]]  # id and name of those that the user may choose, as far as Keystone lists them
    names: dict[str, str]  # of all projects by id, for administrators: the Networking API has ids only


Login = Callable[[Credentials], LoginSession]


def keystone_login(conf: cfg.ConfigOpts) -> Login:
    """Return a login with the Keystone of [keystone_authtoken], whose options keystonemiddleware registers."""

    def login(credentials: Credentials) -> LoginSession:
        from keystoneauth1 import exceptions

        try:
            return _login(_session(conf, time.monotonic() + REQUEST_SECONDS), _auth_url(conf), credentials)
        except exceptions.HttpError as error:
            if error.http_status >= 500:
                LOG.warning("Keystone answered a login of the page with HTTP %s", error.http_status)
                raise Unavailable from None
            raise Refused from None
        except exceptions.MissingAuthMethods:  # several factors: a token can be pasted instead
            raise Refused from None
        except exceptions.ClientException as error:
            # The class only: texts of some exceptions repeat the request.
            LOG.warning("Keystone cannot be used for a login of the page: %s", type(error).__name__)
            raise Unavailable from None

    return within(SECONDS, login)


def within(seconds: float, login: Login) -> Login:
    """Run a login in a thread of its own, so that it holds a thread of the API for a limited time.

    Timeouts of sockets do not limit a login: they apply to each address of Keystone's name and each part of an answer.
    """
    late: threading.Thread | None = None  # of a login that has missed its deadline

    def limited(credentials: Credentials) -> LoginSession:
        nonlocal late
        if late is not None and late.is_alive():  # one at a time, or a slow Keystone would cost a thread for each login
            LOG.warning("Keystone has not yet answered an earlier login of the page")
            raise Unavailable
        ended: SimpleQueue[LoginSession | Exception] = SimpleQueue()

        def work() -> None:
            try:
                ended.put(login(credentials))
            except Exception as error:
                ended.put(error)

        context = contextvars.copy_context()  # with the request id, for the log
        late = threading.Thread(target=context.run, args=(work,), daemon=True, name="login")
        late.start()
        try:
            result = ended.get(timeout=seconds)
        except Empty:
            LOG.warning("Keystone has not answered a login of the page within %g s", seconds)
            raise Unavailable from None
        late = None
        if isinstance(result, Exception):
            raise result
        return result

    return limited


def _auth_url(conf: cfg.ConfigOpts) -> str:
    from keystoneauth1 import exceptions, loading

    try:
        loading.register_auth_conf_options(conf, GROUP)
        url = getattr(loading.load_auth_from_conf_options(conf, GROUP), "auth_url", None)
    except exceptions.AuthPluginException:
        url = None
    url = (url or conf[GROUP].www_authenticate_uri or "").rstrip("/")
    if not url:
        LOG.warning("logins of the page need [%s] auth_url, which is not set", GROUP)
        raise Unavailable
    return url if url.endswith("/v3") else f"{url}/v3"


def _session(conf: cfg.ConfigOpts, ends: float) -> "KeystoneSession":
    """Create a session whose requests end at this monotonic time."""
    from keystoneauth1 import exceptions, session

    class LimitedSession(session.Session):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            left = ends - time.monotonic()
            if left <= 0:
                raise exceptions.ConnectTimeout("the time for the login is over")
            return super().request(*args, **kwargs, timeout=left)

    options = conf[GROUP]
    return LimitedSession(
        verify=False if options.insecure else options.cafile or True,
        cert=(options.certfile, options.keyfile) if options.certfile and options.keyfile else options.certfile,
        user_agent="neutrino",
    )


def _login(session: "KeystoneSession", url: str, given: Credentials) -> LoginSession:
    from keystoneauth1.identity import v3

    scope = _scope(given)
    if given.method == "token" and not scope:
        access = _validated(session, url, given.token)
    else:
        common: Object = {"auth_url": url, "include_catalog": False, **scope}
        auth: Auth
        if given.method == "password":
            common |= _domain("user_domain", given.user_domain)
            auth = v3.Password(username=given.user, password=given.password, **common)
        elif given.method == "token":
            auth = v3.Token(token=given.token, **common)
        else:  # the credential decides the project
            auth = v3.ApplicationCredential(
                auth_url=url,
                application_credential_id=given.credential_id,
                application_credential_secret=given.secret,
            )
        access = auth.get_access(session)
    token, roles = access.auth_token or "", access.role_names or []
    projects = _listed(session, url, token, "auth/projects")
    if not access.project_id and not scope and len(projects) == 1 and given.method != "application_credential":
        only = Credentials(method="token", token=token, project_id=projects[0]["id"])
        return _login(session, url, only)
    admin = any(role.lower() == "admin" for role in roles)
    return LoginSession(
        token=token,
        expires_at=access.expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if access.expires else "",
        user=access.username or "",
        user_id=access.user_id or "",
        project=access.project_name,
        project_id=access.project_id,
        roles=roles,
        projects=projects,
        names={project["id"]: project["name"] for project in _listed(session, url, token, "projects")} if admin else {},
    )


def _scope(given: Credentials) -> dict[str, str]:
    if given.project_id:
        return {"project_id": given.project_id}
    if given.project:
        return {"project_name": given.project, **_domain("project_domain", given.project_domain)}
    return {}


def _domain(prefix: str, name: str) -> dict[str, str]:
    if name.lower() in ("", DEFAULT_DOMAIN):  # people write its id or its name
        return {f"{prefix}_id": DEFAULT_DOMAIN}
    return {f"{prefix}_name": name}


def _validated(session: "KeystoneSession", url: str, token: str) -> "AccessInfo":
    """Look up a token that is used as it is: a new one, created from it, would need the permission to rescope."""
    from keystoneauth1.access import create

    headers = {"X-Auth-Token": token, "X-Subject-Token": token, "Accept": "application/json"}
    response = session.get(f"{url}/auth/tokens?nocatalog", headers=headers, authenticated=False, log=False)
    return create(resp=response, auth_token=token)


def _listed(session: "KeystoneSession", url: str, token: str, path: str) -> list[dict[str, str]]:
    """Return the projects that Keystone lists to this user. A login works without the list: errors are ignored."""
    from keystoneauth1 import exceptions

    headers = {"X-Auth-Token": token, "Accept": "application/json"}
    try:
        response = session.get(f"{url}/{path}", headers=headers, authenticated=False, log=False)
        enabled = [project for project in response.json()["projects"] if project.get("enabled")]
        return [{"id": project["id"], "name": project["name"]} for project in enabled[:MAX_PROJECTS]]
    except (exceptions.ClientException, LookupError, ValueError, TypeError):
        return []
