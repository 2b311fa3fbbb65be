"""Extensions of the DHCP role, on fakes: the example of the documentation, and extensions that fail."""

from __future__ import annotations

import asyncio

import pytest
from oslo_config import cfg

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.extension_api import Contribution, DhcpExtension, Line
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.render import PARTS, DesiredDhcp, render
from neutrino.agent.runtime.namespaces import DesiredDevice
from neutrino.model.dhcp import DhcpNetwork
from tests.support.dhcp import NETWORK, dhcp_port, network, port, settings, subnet
from tests.support.dhcp_fakes import DhcpHost
from tests.support.documented import python_of
from tests.support.unsynced import eventually

V4, V6 = subnet(1), subnet(2, "2001:db8::/64", ipv6_address_mode="dhcpv6-stateful")
OWN = dhcp_port(0xD1, "10.0.0.2", on=(V4,))
VM = port(1, "10.0.0.11", on=(V4,))
NTP: DhcpExtension = python_of("design/dhcp-extensions.md")["NtpServer"](cfg.ConfigOpts())


class Fixed:
    """An extension with a fixed contribution, or one that raises."""

    name = "fixed"

    def __init__(self, contribution: Contribution | None = None) -> None:
        self.contribution = contribution

    def contribute(self, network: ServedNetwork, settings: DhcpSettings) -> Contribution:
        if self.contribution is None:
            raise RuntimeError("no")
        return self.contribution


def rendered(*extensions: DhcpExtension, this: ServedNetwork | None = None) -> DesiredDhcp:
    return render(this or network((V4, V6), OWN, VM), settings(), extensions)


def test_the_documented_example_contributes_to_files_and_namespace() -> None:
    plain, made = rendered(), rendered(NTP)
    assert made.problems == ()
    assert set(made.files["opts"].splitlines()) - set(plain.files["opts"].splitlines()) == {
        f"tag:subnet-{V4.id},option:ntp-server,169.254.169.123"
    }
    assert made.files["addn_hosts"].endswith("169.254.169.123\tntp.example.org ntp\n")
    assert {a.address for a in made.namespace.addresses - plain.namespace.addresses} == {"169.254.169.123/32"}
    assert (made.files["host"], made.daemon.argv) == (plain.files["host"], plain.daemon.argv)
    assert made.daemon.digest() != plain.daemon.digest(), "dnsmasq has to be restarted to listen on the address"


def test_the_built_in_parts_use_the_contract_and_extensions_follow_them() -> None:
    network_, given = network((V4,), OWN, VM), settings()
    for part in PARTS:
        assert part(network_, given) != Contribution(), part
    first = Fixed(Contribution(arguments=("--first",), options=(Line("tag:a,option:mtu,1", "x"),)))
    second = Fixed(Contribution(arguments=("--second",), options=(Line("tag:b,option:mtu,2", "x"),)))
    made = rendered(first, second)
    assert made.daemon.argv[-2:] == ("--first", "--second")
    assert made.files["opts"].splitlines()[-2:] == ["tag:a,option:mtu,1", "tag:b,option:mtu,2"]


@pytest.mark.parametrize(
    ("extension", "problem"),
    [
        (Fixed(), "extension fixed is left out: RuntimeError('no')"),
        (
            Fixed(Contribution(devices=(DesiredDevice("tap7", peer="x"),), options=(Line("a", "x"),))),
            "extension fixed is left out: ValueError('device tap7: the names of devices of extensions start with ext-')",
        ),
        (
            Fixed(Contribution(options=(Line("tag:a,option:wpad,\n", "network x"),))),
            "network x: a line of opts is left out: it has characters that are not printable ASCII",
        ),
    ],
    ids=["raises", "device of another name", "unreadable line"],
)
def test_what_is_wrong_is_left_out_and_the_rest_is_served(extension: DhcpExtension, problem: str) -> None:
    made = rendered(extension, NTP)
    assert made.problems == (problem,)
    assert (made.files, made.namespace) == (rendered(NTP).files, rendered(NTP).namespace)


def test_contributions_are_applied_verified_changed_and_removed() -> None:
    extension = Fixed(NTP.contribute(network((V4,), OWN, VM), settings(use_veth=True)))
    device = DesiredDevice("ext-0", peer="ext-0-out")
    host = DhcpHost([extension])

    async def scenario() -> None:
        host.cache("dhcp_network", DhcpNetwork(id=NETWORK, subnets=(V4,)))
        host.cache("dhcp_port", OWN, VM)
        host.feed.is_synced = True
        host.role.synced()
        task = asyncio.create_task(host.role.run())
        inside = f"qdhcp-{NETWORK}"
        try:
            await eventually(lambda: host.is_running(NETWORK), "it is not served")
            await host.role._loop.queue.empty()  # dnsmasq runs before the reconcile ends
            assert "ntp-server,169.254.169.123" in host.file(NETWORK, "opts")
            assert "169.254.169.123/32" in {a.address for a in host.netlink.read(inside).addresses}
            assert (await host.role.find()).plan == ""
            extension.contribution = Contribution(devices=(device,), options=(Line("option:mtu,9", "x"),))
            drift = (await host.role.find()).plan
            assert "ext-0" in drift
            assert "restart dnsmasq" in drift
            host.role._loop.queue.put(NETWORK)
            await eventually(lambda: "ext-0" in host.netlink.read(inside).devices, "the device is not there")
            await eventually(lambda: "option:mtu,9" in host.file(NETWORK, "opts"), "the option is not there")
            await host.role._loop.queue.empty()
            assert "169.254.169.123/32" not in {a.address for a in host.netlink.read(inside).addresses}
            extension.contribution = Contribution()
            host.role._loop.queue.put(NETWORK)
            await eventually(lambda: "ext-0" not in host.netlink.read(inside).devices, "the device stays")
            await host.role._loop.queue.empty()
            assert (await host.role.find()).plan == ""
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
