"""The Keystone of a lab (`neutrino lab up --keystone`): the real one, from PyPI, with projects and users.

It runs in an environment of its own, as its dependencies are not ours: `scripts/setup keystone` makes it from
requirements-keystone.lock. SQLite, Fernet tokens, one process on loopback.
"""

import base64
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

import neutrino
from neutrino import private
from neutrino.lab.errors import LabError
from neutrino.lab.timing import scaled

PROGRAM: Final = Path(__file__).with_name("keystone_server.py")
REGION: Final = "RegionOne"
DOMAIN: Final = "default"
SERVICE: Final = "neutrino"  # the user of the server, in the project `service`
REQUEST_SECONDS = 30.0
SOURCE = Path(neutrino.__file__).parents[2]
Passwords = Mapping[str, str]  # by user


@dataclass(frozen=True)
class User:
    """A user with one role in one project. Its name is that of its cloud in clouds.yaml."""

    name: str
    project: str
    role: str


ADMIN: Final = User("admin", "admin", "admin")
USERS: Final = (
    ADMIN,
    User("alpha-manager", "alpha", "manager"),
    User("alpha-member", "alpha", "member"),
    User("alpha-reader", "alpha", "reader"),
    User("beta-member", "beta", "member"),
)


def find_python(given: str, source: Path = SOURCE) -> str:
    """The Python of an environment that has Keystone: the given one or, if empty, that of `scripts/setup keystone`."""
    if given:
        if not _has_keystone(given):
            raise LabError(f"--keystone {given}: that Python does not have the package keystone")
        return given
    for candidate in (str(source / "build/keystone/bin/python"), sys.executable):
        if _has_keystone(candidate):
            return candidate
    how = "run scripts/setup keystone" if (source / "scripts/setup").exists() else "pip install keystone elsewhere"
    raise LabError(f"--keystone: there is no Keystone here: {how}, or give the Python that has it: --keystone PYTHON")


def _has_keystone(python: str) -> bool:
    look = "from importlib.util import find_spec as f; raise SystemExit(not (f('keystone') and f('werkzeug')))"
    try:
        return subprocess.run([python, "-I", "-c", look], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


# --- files ------------------------------------------------------------------------------------------------------------


def write_config(directory: Path) -> Path:
    """Write Keystone's configuration and keys into a directory."""
    # As "keystone-manage fernet_setup" does, without the seconds that it takes to start.
    for repository in ("fernet-keys", "credential-keys"):
        private.make_directory(directory / repository)
        for name in ("0", "1"):
            key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            _write_private(directory / repository / name, key)
    config = directory / "keystone.conf"
    _write_private(
        config,
        "[database]\n"
        f"connection = sqlite:///{directory}/keystone.db\n"
        "sqlite_synchronous = false\n"
        # Without caching each request reads some 70 rows; with one process, an in-memory cache is never stale.
        "[cache]\n"
        "backend = dogpile.cache.memory_pickle\n"
        "[fernet_tokens]\n"
        f"key_repository = {directory}/fernet-keys\n"
        "[fernet_receipts]\n"
        f"key_repository = {directory}/fernet-keys\n"
        "[credential]\n"
        f"key_repository = {directory}/credential-keys\n"
        "[identity]\n"
        # The lowest cost of bcrypt: these passwords protect nothing.
        "password_hash_rounds = 4\n",
    )
    return config


def write_passwords(file: Path) -> Passwords:
    """Make up passwords of all users: other users of the machine reach its loopback address too."""
    made = {name: secrets.token_urlsafe(16) for name in (SERVICE, *(user.name for user in USERS))}
    _write_private(file, msgspec.json.encode(made).decode())
    return made


def read_passwords(file: Path) -> Passwords:
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str])


def bootstrap_environment(url: str, password: str) -> Mapping[str, str]:
    """What `keystone-manage bootstrap` reads: the user `admin`, and the catalog's entry of Keystone itself."""
    urls = {f"OS_BOOTSTRAP_{interface}_URL": url for interface in ("PUBLIC", "INTERNAL", "ADMIN")}
    return {"OS_BOOTSTRAP_PASSWORD": password, "OS_BOOTSTRAP_REGION_ID": REGION, **urls}


def render_clouds(url: str, passwords: Passwords) -> str:
    """clouds.yaml with a cloud for each user; `neutrino`, the cloud of a lab without Keystone, is the administrator's."""
    clouds = {"neutrino": ADMIN, **{user.name: user for user in USERS}}
    return "clouds:\n" + "".join(
        f"  {cloud}:\n"
        "    auth:\n"
        f"      auth_url: {url}\n"
        f"      username: {user.name}\n"
        f"      password: {passwords[user.name]}\n"
        f"      project_name: {user.project}\n"
        f"      user_domain_id: {DOMAIN}\n"
        f"      project_domain_id: {DOMAIN}\n"
        f"    region_name: {REGION}\n"
        "    identity_api_version: 3\n"
        for cloud, user in clouds.items()
    )


def _write_private(path: Path, text: str) -> None:
    private.make_file(path)
    path.write_text(text)


# --- requests ---------------------------------------------------------------------------------------------------------


def token_source(url: str, passwords: Callable[[], Passwords], user: User = ADMIN) -> Callable[[], str]:
    """A function that returns a valid token of a user. It logs in at its first call, and again when the token expires."""

    @cache
    def session() -> Any:
        return _session(url, user, passwords()[user.name])

    return lambda: _token(url, session())


def responds(url: str, passwords: Passwords) -> bool:
    try:
        return bool(_token(url, _session(url, ADMIN, passwords[ADMIN.name])))
    except LabError:
        return False


def project_id(url: str, passwords: Callable[[], Passwords], project: str) -> str:
    """The id of a project, given by its id or name."""
    known = _call(url, _session(url, ADMIN, passwords()[ADMIN.name]), "GET", "projects")["projects"]
    found = [one["id"] for one in known if project in (one["id"], one["name"])]
    if not found:
        raise LabError(f"there is no project {project}: Keystone has {', '.join(sorted(one['name'] for one in known))}")
    return str(found[0])


def set_up(url: str, network_url: str, passwords: Passwords) -> None:
    """Create projects, users and the catalog's entry of the Networking API."""
    call = partial(_call, url, _session(url, ADMIN, passwords[ADMIN.name]))

    def create(kind: str, **attributes: object) -> str:
        return str(call("POST", f"{kind}s", {kind: attributes})[kind]["id"])

    roles = {role["name"]: role["id"] for role in call("GET", "roles")["roles"]}
    projects = {project["name"]: project["id"] for project in call("GET", "projects")["projects"]}
    for user in (User(SERVICE, "service", "service"), *USERS):
        if user == ADMIN:  # made by the bootstrap
            continue
        if user.project not in projects:
            projects[user.project] = create("project", name=user.project, domain_id=DOMAIN)
        project = projects[user.project]
        key = create(
            "user", name=user.name, password=passwords[user.name], domain_id=DOMAIN, default_project_id=project
        )
        call("PUT", f"projects/{project}/users/{key}/roles/{roles[user.role]}")
    network = create("service", type="network", name="neutron")
    for interface in ("public", "internal", "admin"):
        create("endpoint", service_id=network, region_id=REGION, interface=interface, url=network_url)


def _session(url: str, user: User, password: str) -> Any:
    import requests
    from keystoneauth1 import session
    from keystoneauth1.identity import v3

    direct = requests.Session()
    direct.trust_env = False  # no proxy of the environment for loopback
    auth = v3.Password(
        auth_url=url,
        username=user.name,
        password=password,
        project_name=user.project,
        user_domain_id=DOMAIN,
        project_domain_id=DOMAIN,
    )
    return session.Session(auth=auth, session=direct, timeout=scaled(REQUEST_SECONDS))


def _token(url: str, session: Any) -> str:
    from keystoneauth1.exceptions import ClientException

    try:
        return str(session.get_token())
    except ClientException as error:
        raise LabError(f"no token from Keystone at {url}: {error}") from None


def _call(url: str, session: Any, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
    from keystoneauth1.exceptions import ClientException

    try:
        answer = session.request(f"{url}/{path}", method, json=body)
    except ClientException as error:
        raise LabError(f"Keystone at {url}: {method} {path}: {error}") from None
    return answer.json() if answer.content else None
