"""Servers whose hosts report what they guarantee to a real Placement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from neutrino.features.placement.reporter import Reporter
from neutrino.model.agents import OVS
from neutrino.server.events.delivery import Undelivered
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.main import Server
from neutrino.server.placement import Call
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.placement import Placement

INVENTORY = {"allocation_ratio": 1.0, "min_unit": 1, "step_size": 1, "reserved": 0}
DEFAULTS = {"max_unit": 2147483647, **INVENTORY}
EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"
PACKETS = "NET_PACKET_RATE_KILOPACKET_PER_SEC"


@pytest.fixture(scope="module")
def placement() -> Iterator[Placement]:
    with Placement() as made:
        yield made


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, database: str, placement: Placement, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory), {"placement": placement.settings})
    yield made
    made.close()


def guaranteed(
    bandwidths: dict[str, tuple[int | None, int | None]] | None = None,
    packets: dict[str, int] | None = None,
    hypervisor: str = "",
) -> dict[str, Any]:
    """The part of an agent's report that is for Placement; bandwidths are egress and ingress."""
    rates = {device: {"egress": out, "ingress": into} for device, (out, into) in (bandwidths or {}).items()}
    return {
        "resource_provider_bandwidths": rates,
        "resource_provider_inventory_defaults": INVENTORY,
        "resource_provider_packet_processing_without_direction": {
            name: {"any": rate} for name, rate in (packets or {}).items()
        },
        "resource_provider_packet_processing_with_direction": {},
        "resource_provider_packet_processing_inventory_defaults": INVENTORY,
        "resource_provider_hypervisors": dict.fromkeys(rates, hypervisor) if hypervisor else {},
        "tunnelled_network_rp_name": "rp_tunnelled",
    }


@dataclass
class Hosts:
    """Hosts of a server, and the reporter, which delivers in the test's own thread."""

    server: Server
    placement: Placement
    reporter: Reporter
    queued: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reporter.queue.put = self.queued.append  # type: ignore[method-assign,assignment]

    def report(self, host: str, **configurations: Any) -> AgentReport:
        made = switch(self.server, host, **configurations)
        self.reporter.host_reported(made)
        return made

    def heartbeat(self, made: AgentReport) -> None:
        self.reporter.host_reported(AgentReport(made.agent_id, OVS, made.host, made.status, is_heartbeat=True))

    def deliver(self) -> Undelivered[str] | None:
        batch, self.queued[:] = list(dict.fromkeys(self.queued)), []
        return self.reporter.deliver(batch) if batch else None

    def settle(self) -> None:
        assert self.deliver() is None

    def synced(self, made: AgentReport) -> bool | None:
        shown = Api(self.server.app).as_admin().show("agent", made.agent_id)["resources_synced"]
        assert shown is None or isinstance(shown, bool)
        return shown


def through(reporter: Reporter, call: Call) -> Reporter:
    """A reporter like another one, with its requests through `call`."""
    return Reporter(reporter.db, call, reporter.supported)
