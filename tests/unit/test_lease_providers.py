"""Which DHCP agents give a port its lease: a table of agents and the chosen providers."""

import pytest

from neutrino.server.ml2.ports.lease_providers import DhcpAgent, choose_providers

HOME = DhcpAgent("h1")
PLAIN, OWN = DhcpAgent("h2"), DhcpAgent("h2", distributed=True)
DOWN, OWN_DOWN = DhcpAgent("h1", serves=False), DhcpAgent("h2", serves=False, distributed=True)


@pytest.mark.parametrize(
    ("scheduled", "on_host", "providers"),
    [
        ([HOME], None, [HOME]),
        ([HOME], PLAIN, [HOME]),  # it serves networks that are scheduled to it, and this one is not
        ([HOME], OWN, [OWN]),  # requests do not leave its host
        ([HOME, OWN], OWN, [OWN]),
        ([HOME, PLAIN], PLAIN, [HOME, PLAIN]),
        ([HOME], OWN_DOWN, [HOME]),  # it has no copy
        ([DOWN], OWN, [OWN]),  # the DHCP port is there, and so is its copy
        ([DOWN], PLAIN, []),
        ([], OWN, []),  # without a DHCP port there is no copy of one
        ([], None, []),
    ],
)
def test_lease_providers(scheduled: list[DhcpAgent], on_host: DhcpAgent | None, providers: list[DhcpAgent]) -> None:
    assert choose_providers(scheduled, on_host) == providers
