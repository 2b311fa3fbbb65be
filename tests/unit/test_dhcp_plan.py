"""When dnsmasq is left alone, reloaded or restarted; and which leases are released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.dhcp.leases import Lease, read_leases, render_release, stale_leases
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.render import DesiredDhcp, render
from neutrino.agent.runtime.supervisor import Action, Service, apply_service
from neutrino.model.dhcp import DhcpPort
from tests.fakes.process import FakeProcesses
from tests.support.dhcp import dhcp_port, network, option, port, settings, subnet

V4 = subnet(1)
OTHER = subnet(2, "10.0.1.0/24")
V6 = subnet(4, "2001:db8:4::/64", ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful")
OWN = dhcp_port(0xD1, "10.0.0.2", on=(V4,))
VM = port(1, "10.0.0.11", on=(V4,))
BEFORE = network((V4,), OWN, VM)


class Host:
    """A dnsmasq in memory, with its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes = FakeProcesses()

    def serve(self, desired: DesiredDhcp) -> Action:
        files = {str(self.directory / name): text for name, text in desired.files.items()}
        action, _ = apply_service(Service(desired.daemon, files), self.processes)
        return action


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def desired(this: ServedNetwork, directory: Path, **given: Any) -> DesiredDhcp:
    return render(this, settings(dhcp_confs=str(directory), **given))


def test_a_first_apply_starts_and_a_second_does_nothing(host: Host, tmp_path: Path) -> None:
    assert host.serve(desired(BEFORE, tmp_path)) is Action.START
    assert host.serve(desired(BEFORE, tmp_path)) is Action.NOTHING


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(network((V4,), OWN), id="port deleted"),
        pytest.param(network((V4,), OWN, VM, port(2, "10.0.0.12", on=(V4,))), id="port created"),
        pytest.param(network((V4,), OWN, port(1, "10.0.0.44", on=(V4,))), id="another address"),
        pytest.param(network((V4,), OWN, VM, options=(option("mtu", "9"),)), id="options of the network"),
        pytest.param(network((subnet(1, dns_nameservers=("192.0.2.1",)),), OWN, VM), id="name servers"),
        pytest.param(network((subnet(1, gateway_ip="10.0.0.9"),), OWN, VM), id="gateway"),
    ],
)
def test_a_change_in_files_is_a_reload(host: Host, tmp_path: Path, after: ServedNetwork) -> None:
    host.serve(desired(BEFORE, tmp_path))
    assert host.serve(desired(after, tmp_path)) is Action.RELOAD


def with_option(value: str, *more: DhcpPort) -> ServedNetwork:
    return network((V4,), OWN, port(1, "10.0.0.11", on=(V4,), options=(option("mtu", value),)), *more)


def test_a_change_where_a_port_has_options_is_a_restart(host: Host, tmp_path: Path) -> None:
    """dnsmasq dies of a reload after a request of a client that has a tag: the tags of before count too."""
    states = BEFORE, with_option("9"), with_option("8"), with_option("8", port(2, "10.0.0.12", on=(V4,))), BEFORE
    host.serve(desired(states[0], tmp_path))
    for after in states[1:]:
        assert host.serve(desired(after, tmp_path)) is Action.RESTART
        assert host.serve(desired(after, tmp_path)) is Action.NOTHING


@pytest.mark.parametrize(
    ("after", "given"),
    [
        pytest.param(network((V4, OTHER), OWN, VM), {}, id="another subnet"),
        pytest.param(network((V4,), OWN, VM, mtu=1400), {}, id="MTU"),
        pytest.param(network((V4,), dhcp_port(0xD1, "10.0.0.3", on=(V4,)), VM), {}, id="another address of its own"),
        pytest.param(BEFORE, {"dhcp_lease_duration": 60}, id="lease time"),
    ],
)
def test_a_change_in_arguments_or_own_addresses_is_a_restart(
    host: Host, tmp_path: Path, after: ServedNetwork, given: dict[str, Any]
) -> None:
    host.serve(desired(BEFORE, tmp_path))
    assert host.serve(desired(after, tmp_path, **given)) is Action.RESTART


# --- leases -----------------------------------------------------------------------------------------------------------

LEASES = read_leases(
    "1700 fa:16:3e:00:00:01 10.0.0.11 vm1 01:fa:16:3e:00:00:01\n"
    "0 fa:16:3e:00:00:02 10.0.0.12 * *\n"
    "duid 00:0a\n"
    "1700 77 2001:db8:4::11 vm1 00:0b\n"
)
HOSTS = "fa:16:3e:00:00:01,tag:dhcpv6,vm1.example.org,[2001:db8:4::11]\nfa:16:3e:00:00:01,vm1,10.0.0.11\n"


def released(*ports: Any) -> set[str]:
    return {lease.address for lease in stale_leases(LEASES, HOSTS, ports)}


def test_leases_are_read() -> None:
    assert LEASES[1] == Lease("10.0.0.12", "fa:16:3e:00:00:02", server_id="00:0a")


def test_leases_of_ports_that_are_there_stay() -> None:
    one = port(1, "10.0.0.11", "2001:db8:4::11", on=(V4, V6))
    two = port(2, "10.0.0.12", on=(V4,))
    assert released(one, two) == set()
    assert released(one) == {"10.0.0.12"}
    assert released() == {"10.0.0.11", "10.0.0.12", "2001:db8:4::11"}


def test_the_lease_of_an_address_that_moved_to_another_port_is_stale() -> None:
    thief = port(3, "10.0.0.11", "2001:db8:4::11", on=(V4, V6))
    two = port(2, "10.0.0.12", on=(V4,))
    assert released(thief, two) == {"10.0.0.11", "2001:db8:4::11"}


def test_commands() -> None:
    by_address = {lease.address: render_release(lease, "tap0") for lease in stale_leases(LEASES, "", ())}
    assert by_address["10.0.0.11"] == (
        ("dhcp_release", "tap0", "10.0.0.11", "fa:16:3e:00:00:01", "01:fa:16:3e:00:00:01")
    )
    assert by_address["10.0.0.12"] == ("dhcp_release", "tap0", "10.0.0.12", "fa:16:3e:00:00:02")
    words = (
        "--iface",
        "tap0",
        "--ip",
        "2001:db8:4::11",
        "--client-id",
        "00:0b",
        "--server-id",
        "00:0a",
        "--iaid",
        "77",
    )
    assert by_address["2001:db8:4::11"] == ("dhcp_release6", *words)
