"""Port forwardings: which map each is in, how many elements it has, and which connections a change makes stale."""

from __future__ import annotations

import pytest

from neutrino.agent.l3.extensions.nat import SAME, SINGLE, TO_ONE, forwarding_maps, stale_forwardings
from neutrino.dataplane.conntrack.api import TCP, ConntrackFlush
from neutrino.model.routing import PortForwarding

OUTSIDE, INSIDE = "203.0.113.9", "10.0.1.9"
Ports = tuple[int, int]


def forwarding(external: Ports, internal: Ports, inside: str = INSIDE, protocol: str = "tcp") -> PortForwarding:
    return PortForwarding(
        id="p",
        protocol=protocol,
        external_ip_address=OUTSIDE,
        external_port_first=external[0],
        external_port_last=external[1],
        internal_ip_address=inside,
        internal_port_first=internal[0],
        internal_port_last=internal[1],
    )


def elements(*several: PortForwarding) -> dict[str, frozenset[str]]:
    return {each.name: each.elements for each in forwarding_maps(several)}


def ended(before: dict[str, frozenset[str]], *after: PortForwarding) -> set[Ports]:
    flushes = list(stale_forwardings(forwarding_maps(after), before))
    assert all(f == ConntrackFlush(0, 4, "ingress", OUTSIDE, "", TCP, f.port_min, f.port_max) for f in flushes)
    return {(flush.port_min, flush.port_max) for flush in flushes}


@pytest.mark.parametrize(
    ("external", "internal", "name", "expected"),
    [
        ((80, 80), (8080, 8080), SINGLE, {"203.0.113.9 . 6 . 80 : 10.0.1.9 . 8080"}),
        ((1, 65535), (1, 65535), SAME, {"203.0.113.9 . 6 . 1-65535 : 10.0.1.9"}),
        ((1, 65535), (22, 22), TO_ONE, {"203.0.113.9 . 6 . 1-65535 : 10.0.1.9 . 22"}),
        (
            (80, 81),
            (8080, 8081),
            SINGLE,
            {"203.0.113.9 . 6 . 80 : 10.0.1.9 . 8080", "203.0.113.9 . 6 . 81 : 10.0.1.9 . 8081"},
        ),
    ],
)
def test_a_range_is_one_element_where_nft_can(external: Ports, internal: Ports, name: str, expected: set[str]) -> None:
    found = elements(forwarding(external, internal))
    assert found == {SINGLE: set(), TO_ONE: set(), SAME: set(), name: expected}


RANGE = forwarding((1000, 1010), (1000, 1010))
MOVED = forwarding((1000, 1010), (1000, 1010), "10.0.1.10")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((RANGE,), (RANGE,), set()),
        ((RANGE,), (), {(1000, 1010)}),
        ((RANGE,), (MOVED,), {(1000, 1010)}),
        ((RANGE,), (forwarding((1000, 1020), (1000, 1020)),), set()),
        ((RANGE,), (forwarding((1003, 1005), (1003, 1005)),), {(1000, 1002), (1006, 1010)}),
        ((RANGE,), (forwarding((1004, 1004), (1004, 1004)),), {(1000, 1003), (1005, 1010)}),
        ((RANGE,), (forwarding((1000, 1010), (1001, 1011)),), {(1000, 1010)}),
        ((RANGE,), (forwarding((1000, 1010), (1005, 1005)),), {(1000, 1004), (1006, 1010)}),
        ((forwarding((1004, 1004), (1004, 1004)),), (RANGE,), set()),
        ((forwarding((1004, 1004), (53, 53)),), (forwarding((1000, 1010), (53, 53)),), set()),
        (
            (forwarding((80, 89), (53, 53)),),
            (forwarding((80, 84), (53, 53)), forwarding((86, 89), (54, 54))),
            {(85, 89)},
        ),
        ((forwarding((80, 84), (180, 184)),), (), {(80, 84)}),
        ((RANGE, forwarding((1011, 1011), (5, 5))), (RANGE,), {(1011, 1011)}),
    ],
)
def test_connections_are_stale_where_ports_are_forwarded_elsewhere(
    before: tuple[PortForwarding, ...], after: tuple[PortForwarding, ...], expected: set[Ports]
) -> None:
    assert ended(elements(*before), *after) == expected


def test_a_table_of_an_older_release_keeps_its_connections() -> None:
    """An older release had one map, with an element for every port of a range."""
    written_out = frozenset(f"203.0.113.9 . 6 . {port} : 10.0.1.9 . {port}" for port in range(1000, 1011))
    assert ended({SINGLE: written_out}, RANGE) == set()
    assert ended({SINGLE: written_out}, MOVED) == {(1000, 1010)}
    assert ended({SINGLE: written_out}) == {(1000, 1010)}
