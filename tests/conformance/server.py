"""The servers of the conformance tests: live processes of the `neutrino` command, on SQLite."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.model.agents import DHCP, L3, AgentState
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.conformance.recording.settings import (
    AGENTS_HOST,
    AGENTS_ZONE,
    EXTERNAL_CIDR,
    L3_AGENT,
    SETTINGS,
    Settings,
    configuration,
)
from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer

PROJECT = "ad" * 16  # of the administrator
ROLES = "admin,manager,member,reader"  # an administrator has the lesser roles too


class LiveServer(TemporaryServer):
    """`with LiveServer(settings) as server:` serves the Networking API at `server.url` without authentication."""

    name = "api"

    def __init__(self, settings: Settings, port: int | None = None) -> None:
        super().__init__()
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{self.directory / 'neutrino.sqlite'}"
        self._settings = settings

    def start(self) -> None:
        here = {
            "DEFAULT": {"bind_port": str(self.port), "state_path": str(self.directory), "api_workers": "2"},
            "database": {"connection": self.database},
        }
        config = self.write("neutrino.conf", configuration(here, self._settings))
        command = Path(sys.executable).with_name("neutrino")
        self.spawn([command, "server", "--config-file", config], ready=lambda: listening(self.port))

    def exchange(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and body of the response to an administrator, or to the caller of the headers."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json", "X-Project-Id": PROJECT, "X-Roles": ROLES, **(headers or {})}
        request = urllib.request.Request(f"{self.url}{path}", data, head, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy for loopback
        try:
            with opener.open(request, timeout=60) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        return status, json.loads(content) if content else None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The response to an administrator; an error fails the test."""
        status, answer = self.exchange(method, path, body)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def report_agents(self, states: Sequence[AgentState]) -> None:
        """Register agents, as if they had reported."""
        db = Database(self.database)
        try:
            Registry(db).report_all(states)
        finally:
            db.close()


class RecordedServer(LiveServer):
    """A server in the initial state of the recorded one."""

    def __init__(self, port: int | None = None) -> None:
        # The agents report only once, below, and a replay by hand may be hours later.
        lasting = {"DEFAULT": {**SETTINGS["DEFAULT"], "agent_down_time": str(365 * 24 * 3600)}}
        super().__init__({**SETTINGS, **lasting}, port)

    def start(self) -> None:
        super().start()
        self._make_external_network()
        self.report_agents(
            [
                AgentState(DHCP, "neutron-dhcp-agent", AGENTS_HOST, "dhcp_agent", AGENTS_ZONE, start_flag=True),
                AgentState(L3, "neutron-l3-agent", AGENTS_HOST, "l3_agent", AGENTS_ZONE, L3_AGENT, start_flag=True),
            ]
        )

    def _make_external_network(self) -> None:
        # Clients of every project see it and its subnet in their lists.
        network = self.ask("POST", "/v2.0/networks", {"network": {"name": "public", "router:external": True}})
        subnet = {
            "network_id": network["network"]["id"],
            "ip_version": 4,
            "cidr": EXTERNAL_CIDR,
            "enable_dhcp": False,
        }
        self.ask("POST", "/v2.0/subnets", {"subnet": subnet})
