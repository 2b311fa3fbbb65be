"""The server under test, started as a user does: with the command and a configuration file."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from neutrino.lab.timing import scaled
from tests.support.databases import prepared_sqlite
from tests.support.keystone import Keystone
from tests.support.launcher import PROGRAM
from tests.support.memory import alive, tree
from tests.support.ports import free_port
from tests.support.process import TemporaryServer, wait_until

Settings = Mapping[str, Mapping[str, object]]


def configuration(settings: Settings) -> str:
    """The text of a configuration file. oslo.config would expand a dollar sign as a reference to another option."""
    lines = []
    for section, options in settings.items():
        values = (f"{name} = {str(value).replace('$', '$$')}" for name, value in options.items())
        lines += [f"[{section}]", *values, ""]
    return "\n".join(lines)


def with_keystone(keystone: Keystone) -> Settings:
    """The settings of a server that authenticates with this Keystone."""
    return {
        "DEFAULT": {"auth_strategy": "keystone"},
        "keystone_authtoken": {
            "www_authenticate_uri": keystone.url,
            "auth_url": keystone.url,
            "auth_type": "password",
            "username": keystone.service_user,
            "password": keystone.service_password,
            "project_name": keystone.service_project,
            "user_domain_id": "default",
            "project_domain_id": "default",
            "service_token_roles_required": True,
        },
    }


class Neutrino(TemporaryServer):
    """`with Neutrino() as server:` runs `neutrino server` at `server.url`, without authentication and with SQLite.

    `settings` override the defaults, section by section. The server ends by SIGTERM, with all of its processes.
    """

    name = "server"

    def __init__(self, settings: Settings | None = None, *, workers: int = 1, program: Path = PROGRAM) -> None:
        super().__init__()
        self.program = program
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        defaults: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "bind_host": "127.0.0.1",
                "bind_port": self.port,
                "auth_strategy": "noauth",
                "api_workers": workers,
                "state_path": self.directory,
            },
            # With its schema already: one that is empty takes half a second of processor time more.
            "database": {"connection": prepared_sqlite(self.directory / "neutrino.sqlite")},
            "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199"},
            "feed": {"run": False},  # most tests have no host: one process less to start
        }
        self.settings = {
            section: {**defaults.get(section, {}), **(settings or {}).get(section, {})}
            for section in dict.fromkeys([*defaults, *(settings or {})])
        }
        self.database = str(self.settings["database"]["connection"])
        self._ready = False
        self.config = self.write("neutrino.conf", configuration(self.settings))

    @property
    def command(self) -> Sequence[str | Path]:
        return [self.program, "server", "--config-file", self.config]

    def start(self) -> None:
        self.spawn(self.command, ready=self._answers)
        self._ready = True

    def stop(self) -> None:
        family = [pid for first in self.pids for pid in tree(first)]
        ended = self._processes[0][0].poll() if self._processes else None
        super().stop()
        wait_until(lambda: not any(map(alive, family)), timeout=30, what="a process of the server", failed=lambda: None)
        if ended is not None and self._ready:
            raise RuntimeError(f"the server had ended by itself, with {ended}")

    @property
    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))

    def _answers(self) -> bool:
        runs_feed = str(self.settings["feed"]["run"]).lower() == "true"
        return self._api_answers() and (not runs_feed or self._feed_listens())

    def _feed_listens(self) -> bool:
        """The feed is a process of its own, which may start to listen later than the API."""
        default = f"unix:{self.settings['DEFAULT']['state_path']}/feed.sock"
        for bind in str(self.settings["feed"].get("bind", default)).split(","):
            family = socket.AF_UNIX if bind.startswith("unix:") else socket.AF_INET
            host, _, port = bind.rpartition(":")
            with socket.socket(family) as probe:
                probe.settimeout(30)
                if probe.connect_ex(port if family == socket.AF_UNIX else (host, int(port))) != 0:
                    return False
        return True

    def _api_answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Caller:
    """Requests with one caller's headers; responses of every status are returned."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of the environment for loopback
        self._session.headers.update(headers or {})

    def __call__(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        return self._session.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=scaled(30))

    def create(self, kind: str, **values: Any) -> dict[str, Any]:
        answer = self("POST", f"/v2.0/{several(kind).replace('_', '-')}", {kind: values})
        assert answer.status_code == http.HTTPStatus.CREATED, answer.text
        made: dict[str, Any] = answer.json()[kind]
        return made

    def ids(self, kind: str) -> set[str]:
        answer = self("GET", f"/v2.0/{several(kind).replace('_', '-')}")
        assert answer.status_code == http.HTTPStatus.OK, answer.text
        return {row["id"] for row in answer.json()[several(kind)]}

    def close(self) -> None:
        self._session.close()


def several(kind: str) -> str:
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
