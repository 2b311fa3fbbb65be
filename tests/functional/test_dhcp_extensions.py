"""The documented example of a DHCP extension, with a real dnsmasq and a real client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from oslo_config import cfg

from neutrino.agent.runtime.supervisor import Action
from tests.support.dhcp import option
from tests.support.dhcp_lab import Lab
from tests.support.documented import python_of
from tests.support.openvswitch import OpenVSwitch


@pytest.fixture
def lab() -> Iterator[Lab]:
    extension = python_of("design/dhcp-extensions.md")["NtpServer"](cfg.ConfigOpts())
    with OpenVSwitch() as switch, Lab(switch, [extension]) as made:
        yield made


def test_clients_get_the_option_and_resolve_the_name(lab: Lab) -> None:
    v4 = lab.network.subnet(1)
    own, one = lab.network.dhcp_port(0xD1, "10.0.0.2", on=(v4,)), lab.network.port(1, "10.0.0.11", on=(v4,))
    this = lab.network.network((v4,), own, one)
    assert lab.serve(this).problems == ()
    client = lab.client(one)
    given = client.udhcpc("-O", "ntpsrv")
    assert (given["ip"], given["ntpsrv"]) == ("10.0.0.11", "169.254.169.123")
    client.ip("addr", "replace", "10.0.0.11/24", "dev", "eth0")
    assert "169.254.169.123" in client.lookup("ntp.example.org", "10.0.0.2")
    client.ip("route", "replace", "169.254.169.123/32", "via", "10.0.0.2")
    assert "10.0.0.11" in client.lookup("vm1.example.org", "169.254.169.123"), "dnsmasq listens on the address"
    assert lab.serve(this).action is Action.NOTHING
    assert lab.reconciler.plan(this)[0] == []


def test_an_extension_overrides_the_network(lab: Lab) -> None:
    v4 = lab.network.subnet(1)
    own, one = lab.network.dhcp_port(0xD1, "10.0.0.2", on=(v4,)), lab.network.port(1, "10.0.0.11", on=(v4,))
    lab.serve(lab.network.network((v4,), own, one, options=(option("ntp-server", "192.0.2.1"),)))
    assert lab.client(one).udhcpc("-O", "ntpsrv")["ntpsrv"] == "169.254.169.123"
