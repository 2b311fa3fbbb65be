"""A Placement for the tests: the real one, with SQLite and without Keystone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import requests

from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer

VERSION = "placement 1.36"


class Placement(TemporaryServer):
    """`with Placement() as placement:` serves its API at `placement.url`."""

    name = "placement"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = {
            "auth_type": "admin_token",
            "endpoint": self.url,
            "token": "admin",
        }  # of neutrino's [placement]
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of the environment for loopback
        self._session.headers.update(
            {
                "X-Auth-Token": "admin",
                "OpenStack-API-Version": VERSION,
                "Accept": "application/json",
            }
        )

    def start(self) -> None:
        config = self.directory / "placement.conf"
        database = self.directory / "placement.sqlite"
        section = f"[placement_database]\nconnection = sqlite:///{database}\nsync_on_startup = true\n"
        config.write_text(f"[api]\nauth_strategy = noauth2\n{section}")
        self.serve()

    def serve(self) -> None:
        program = Path(__file__).with_name("placement_server.py")
        self.spawn(  # -P: else placement.py in the program's directory hides the package placement
            [sys.executable, "-P", program, str(self.port)],
            {"OS_PLACEMENT_CONFIG_DIR": str(self.directory)},
            ready=lambda: listening(self.port, "127.0.0.1"),
        )

    def stop(self) -> None:
        self._session.close()
        super().stop()

    def request(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self._session.request(method, self.url + path, json=body, timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.request(method, path, body)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    # --- what Nova does -------------------------------------------------------------------------------------------

    def compute_node(self, name: str) -> str:
        """Register a compute node; returns its id."""
        body = self.ask("POST", "/resource_providers", {"name": name})
        vcpus = {"VCPU": {"total": 8}}
        provider, generation = body["uuid"], body["generation"]
        written = {"resource_provider_generation": generation, "inventories": vcpus}
        self.ask("PUT", f"/resource_providers/{provider}/inventories", written)
        return str(provider)

    def candidates(self, *groups: dict[str, Any], below: str = "") -> list[Any]:
        """Allocations that fit for an instance with the groups of its ports' requests, on any compute node or on one."""
        query = ["resources=VCPU:1", "group_policy=none"]
        if below:
            (node,) = self.ask("GET", f"/resource_providers?name={below}")["resource_providers"]
            query.append(f"in_tree={node['uuid']}")
        for group in groups:
            key = group["id"]
            amounts = ",".join(f"{name}:{amount}" for name, amount in group["resources"].items())
            query += [f"resources_{key}={amounts}", f"required_{key}={','.join(group['required'])}"]
        return list(self.ask("GET", "/allocation_candidates?" + "&".join(query))["allocation_requests"])

    def allocate(self, instance: str, *groups: dict[str, Any], project: str, below: str) -> dict[str, str]:
        """Allocate for an instance on a compute node; returns the provider of each group, as in binding profiles."""
        found = self.candidates(*groups, below=below)[0]
        consumer = {"project_id": project, "user_id": "u", "consumer_generation": None}
        self.ask("PUT", f"/allocations/{instance}", {"allocations": found["allocations"], **consumer})
        return {key.removeprefix("_"): providers[0] for key, providers in found["mappings"].items() if key}

    # --- what there is ----------------------------------------------------------------------------------------------

    def tree(self, root: str) -> dict[str, dict[str, Any]]:
        """The providers below a compute node by name, with their traits and inventories."""
        listed = self.ask("GET", f"/resource_providers?in_tree={root}")["resource_providers"]
        found = {one["name"]: one | self._parts(one["uuid"]) for one in listed if one["uuid"] != root}
        for one in found.values():
            del one["links"]  # in any order
        return found

    def _parts(self, provider: str) -> dict[str, Any]:
        traits = self.ask("GET", f"/resource_providers/{provider}/traits")["traits"]
        inventories = self.ask("GET", f"/resource_providers/{provider}/inventories")["inventories"]
        return {"traits": set(traits), "inventories": inventories}

    def allocated(self, instance: str) -> dict[str, Any]:
        """Resources of an instance by provider."""
        found = self.ask("GET", f"/allocations/{instance}")["allocations"]
        return {provider: each["resources"] for provider, each in found.items()}
