"""The SR-IOV role: what it reports of ports and cards, and when it reconciles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import structs

from neutrino.agent.config import check, configuration
from neutrino.agent.sriov.build import describe
from neutrino.agent.sriov.config import sriov_options
from neutrino.agent.sriov.role import NOT_PLUGGED, OTHER_MAC_SECONDS, SriovRole
from neutrino.dataplane.sriov.api import Setting
from neutrino.errors import RefusedToStart
from neutrino.model import agents
from tests.support.l2 import mac
from tests.support.metadata import Feed, until
from tests.support.sriov import CARD, CardHost, function_port, policy, vlan

DESCRIPTION = agents.AgentState(agents.NIC_SWITCH, "neutron-sriov-nic-agent", "h1", "N/A")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(host: CardHost, feed: Feed, scenario: Callable[[SriovRole, Clock], Awaitable[None]]) -> None:
    clock = Clock()
    role = SriovRole(feed, host.reconciler, DESCRIPTION, clock=clock)

    async def running() -> None:
        task = asyncio.create_task(role.run())
        await scenario(role, clock)
        await role.finish()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(running())


def problems(role: SriovRole) -> dict[str, str]:
    (state,) = role.describe()
    found = state.configurations[agents.PROBLEMS]
    assert isinstance(found, dict)
    return found


def test_a_port_goes_up_when_its_instance_starts_and_down_when_it_stops(tmp_path: Path) -> None:
    host, feed = CardHost(tmp_path), Feed()
    feed.put("network", "net", vlan())
    feed.put("port", "p1", function_port("p1", 1))

    async def scenario(role: SriovRole, clock: Clock) -> None:
        await until(lambda: bool(host.sriov.events))
        assert role.applied() is None
        role.synced()
        await until(lambda: feed.down == {"p1": NOT_PLUGGED})
        await until(lambda: role.applied() == 1)
        host.plug(1)  # the kernel's event is all that tells it
        await until(lambda: feed.up == {"p1": 1})
        (state,) = role.describe()
        assert state.configurations["devices"] == 1
        feed.put("port", "p1", function_port("p1", 1, revision=2, admin_state_up=False))
        role.synced()
        await until(lambda: feed.down == {"p1": "its admin state is down"})
        feed.put("port", "p1", function_port("p1", 1, revision=3))
        role.synced()
        await until(lambda: feed.up == {"p1": 3})
        host.sriov.unplug(CARD, 1)
        await until(lambda: feed.down == {"p1": NOT_PLUGGED})

    run(host, feed, scenario)


def test_before_the_first_sync_no_port_is_reported_as_down(tmp_path: Path) -> None:
    host, feed = CardHost(tmp_path), Feed()
    feed.put("network", "net", vlan())
    feed.put("port", "p1", function_port("p1", 1))
    feed.put("port", "p2", function_port("p2", 2))
    host.plug(1)

    async def scenario(role: SriovRole, clock: Clock) -> None:
        await until(lambda: feed.up == {"p1": 1})
        assert feed.down == {}
        role.synced()
        await until(lambda: feed.down == {"p2": NOT_PLUGGED})

    run(host, feed, scenario)


def test_problems_name_the_port_the_device_and_the_setting(tmp_path: Path) -> None:
    host, feed = CardHost(tmp_path), Feed()
    host.sriov.refused = {Setting.MIN_RATE}
    feed.put("network", "net", vlan())
    feed.put("qos_policy", "policy", policy(minimum=5000))
    feed.put("port", "p1", function_port("p1", 1, qos_policy_id="policy"))
    host.plug(1)

    async def scenario(role: SriovRole, clock: Clock) -> None:
        role.synced()
        await until(lambda: feed.up == {"p1": 1})
        (text,) = problems(role).values()
        assert "ens1: minimum rate:" in text
        assert problems(role).keys() == {"SR-IOV port p1"}
        assert feed.errors == [("port", "p1", text)]
        host.sriov.remove(CARD)
        await until(lambda: "SR-IOV card ens1" in problems(role))
        assert (await role.find()).problems.keys() == {"p1", CARD}

    run(host, feed, scenario)


def test_another_mac_is_a_problem_once_it_stays(tmp_path: Path) -> None:
    host, feed = CardHost(tmp_path), Feed()
    feed.put("network", "net", vlan())
    feed.put("port", "p1", function_port("p1", 1))
    host.sriov.plug(CARD, 1, mac(9))

    async def scenario(role: SriovRole, clock: Clock) -> None:
        role.synced()
        await until(lambda: role.applied() == 1)
        assert problems(role) == {}
        clock.now = OTHER_MAC_SECONDS
        role.synced()
        await until(lambda: mac(9) in problems(role).get("SR-IOV port p1", ""))
        host.plug(1)
        await until(lambda: problems(role) == {})

    run(host, feed, scenario)


# --- options ----------------------------------------------------------------------------------------------------------

HEAD = """
[DEFAULT]
roles = sriov
host = h1
[feed]
server = unix:/feed
credential_file = /credential
"""


def checked(directory: Path, text: str) -> None:
    (directory / "agent.ini").write_text(f"{HEAD}[sriov_nic]\n{text}\n")
    check(configuration([str(directory / "agent.ini")]))


def test_the_agent_as_the_api_shows_it(tmp_path: Path) -> None:
    text = "physical_device_mappings = rack:ens1, rack:ens2, other:ens1\nresource_provider_bandwidths = ens1:1000:500"
    (tmp_path / "agent.ini").write_text(
        f"{HEAD}[SRIOV_NIC]\n{text}\nresource_provider_default_hypervisor=node\n[FDB]\n"
        "shared_physical_device_mappings = rack:ens1\n"
    )
    conf = configuration([str(tmp_path / "agent.ini")])
    check(conf)
    found = describe(conf, sriov_options(conf))
    assert (found.agent_type, found.binary) == ("NIC Switch agent", "neutron-sriov-nic-agent")
    assert found.configurations["device_mappings"] == {"rack": ["ens1", "ens2"], "other": ["ens1"]}
    assert found.configurations["extensions"] == ["qos", "fdb"]
    assert found.configurations["resource_provider_bandwidths"] == {"ens1": {"egress": 1000, "ingress": 500}}
    assert found.configurations["resource_provider_hypervisors"] == {"ens1": "node", "ens2": "node"}
    assert found.resource_versions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "physical_device_mappings is not set"),
        ("physical_device_mappings = rack", "'rack' is not physical_network:device"),
        ("physical_device_mappings = rack:../x", "is not physical_network:device"),
        ("physical_device_mappings = rack:e\nexclude_devices = e", "'e' is not device:slot;slot"),
        ("physical_device_mappings = rack:e\nexclude_devices = f:0000:03:10.1", "f is no device of"),
        ("physical_device_mappings = rack:e\nexclude_devices = e:0000:03:10.1;3", "'3' is no PCI slot"),
        ("physical_device_mappings = rack:e\nresource_provider_bandwidths = f:1:1", "f is no device of"),
        ("physical_device_mappings = rack:e\nresource_provider_bandwidths = e:x:1", "is not device:egress:ingress"),
    ],
)
def test_options_that_cannot_work(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RefusedToStart, match=message):
        checked(tmp_path, text)


def test_a_port_of_another_network_is_not_touched_by_a_port_that_changes(tmp_path: Path) -> None:
    host, feed = CardHost(tmp_path), Feed()
    feed.put("network", "net", vlan())
    for number in (1, 2):
        feed.put("port", f"p{number}", function_port(f"p{number}", number))
        host.plug(number)

    async def scenario(role: SriovRole, clock: Clock) -> None:
        role.synced()
        await until(lambda: feed.up == {"p1": 1, "p2": 1})
        before = len(host.sriov.applied)
        changed = structs.replace(function_port("p1", 1), port_security_enabled=False, revision=2)
        feed.put("port", "p1", changed)
        role.synced()
        await until(lambda: feed.up == {"p1": 2, "p2": 1})
        assert [change.index for change in host.sriov.applied[before:]] == [1]

    run(host, feed, scenario)
