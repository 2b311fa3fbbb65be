"""A Keystone for the tests: the real one, with SQLite and Fernet tokens."""

import contextlib
import secrets
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import requests

from neutrino.lab.keystone import PROGRAM, REGION, bootstrap_environment, write_config
from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer


class Keystone(TemporaryServer):
    """`with Keystone() as keystone:` serves the Identity API at `keystone.url`.

    It has the user `admin` (role admin on the project `admin`), the user `neutrino` (role service on the project
    `service`), and the roles admin, manager, member, reader and service. All is in the domain `default`.
    """

    name = "keystone"
    service_user = "neutrino"
    service_project = "service"

    def __init__(self, *, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.region = REGION
        self._network_url: str | None = None
        self.host = host
        self.port = free_port()
        self.url = f"http://{host}:{self.port}/v3"
        self.admin_password = secrets.token_hex(16)
        self.service_password = secrets.token_hex(16)
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of the environment for loopback

    def start(self) -> None:
        self.spawn(
            # -P: else keystone.py in the program's directory hides the package keystone.
            [sys.executable, "-P", PROGRAM, write_config(self.directory), self.host, str(self.port)],
            bootstrap_environment(self.url, self.admin_password),
            ready=lambda: listening(self.port, self.host),
        )
        self._session.headers["X-Auth-Token"] = self.token("admin", self.admin_password, "admin")
        project = self.create_project(self.service_project)
        self.create_user(self.service_user, self.service_password, project, ["service"])
        self._network_service = self._create("service", {"type": "network", "name": "neutron"})

    def stop(self) -> None:
        self._session.close()
        super().stop()

    def token(self, user: str, password: str, project: str | None, scope: dict[str, Any] | None = None) -> str:
        """A token, for a project given by name, for another scope in Keystone's format, or unscoped."""
        domain = {"id": "default"}
        auth: dict[str, Any] = {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "domain": domain, "password": password}},
            }
        }
        if project is not None:
            auth["scope"] = {"project": {"name": project, "domain": domain}}
        elif scope is not None:
            auth["scope"] = scope
        answer = self._session.post(f"{self.url}/auth/tokens", json={"auth": auth}, timeout=30)
        _check(answer)
        return answer.headers["X-Subject-Token"]

    def create_project(self, name: str) -> str:
        """Returns the project's id."""
        return self._create("project", {"name": name, "domain_id": "default"})

    def create_user(self, name: str, password: str, project: str, roles: Sequence[str]) -> str:
        """A user who has `roles` (names) on `project` (an id); returns the user's id."""
        user = self._create(
            "user", {"name": name, "password": password, "domain_id": "default", "default_project_id": project}
        )
        for role in roles:
            self.grant(user, project, role)
        return user

    def grant(self, user: str, project: str, role: str) -> None:
        """Assign a user (an id) a role (a name, created if there is none) on a project (an id)."""
        self._grant(f"projects/{project}", user, role)

    def grant_beyond_projects(self, user: str, role: str) -> None:
        """Assign a user (an id) a role (a name) on the domain `default` and on the system."""
        self._grant("domains/default", user, role)
        self._grant("system", user, role)

    def _grant(self, where: str, user: str, role: str) -> None:
        found = self._call("GET", "roles", params={"name": role})["roles"]
        role_id = found[0]["id"] if found else self._create("role", {"name": role})
        self._call("PUT", f"{where}/users/{user}/roles/{role_id}")

    @contextlib.contextmanager
    def network_endpoint(self, url: str) -> Iterator[None]:
        """Within the block, `url` is the region's `network` service; then the previous one is restored."""
        before = self._network_url
        self.register_network_endpoint(url)
        try:
            yield
        finally:
            if before is not None:
                self.register_network_endpoint(before)

    def register_network_endpoint(self, url: str) -> None:
        """Make `url` the one `network` service of the region in the catalog, on all interfaces."""
        self._network_url = url
        if self.region not in {region["id"] for region in self._call("GET", "regions")["regions"]}:
            self._call("PUT", f"regions/{self.region}", json={"region": {}})
            (identity,) = self._call("GET", "services", params={"type": "identity"})["services"]
            self._create_endpoints(identity["id"], self.url)
        place = {"service_id": self._network_service, "region_id": self.region}
        for endpoint in self._call("GET", "endpoints", params=place)["endpoints"]:
            self._call("DELETE", f"endpoints/{endpoint['id']}")
        self._create_endpoints(self._network_service, url)

    def _create_endpoints(self, service: str, url: str) -> None:
        for interface in ("public", "internal", "admin"):
            attributes = {"service_id": service, "region_id": self.region, "interface": interface, "url": url}
            self._create("endpoint", attributes)

    def _create(self, kind: str, attributes: dict[str, Any]) -> str:
        created: str = self._call("POST", f"{kind}s", json={kind: attributes})[kind]["id"]
        return created

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self._session.request(method, f"{self.url}/{path}", timeout=30, **arguments)
        _check(answer)
        return answer.json() if answer.content else None


def _check(answer: requests.Response) -> None:
    if not answer.ok:
        raise RuntimeError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}")
