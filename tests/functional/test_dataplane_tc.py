"""The contract of the traffic control driver, on the fake and on a device of the kernel."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pytest

from neutrino.dataplane.tc.api import Filter, Item, QueueLength, Tc, TcError, Word, match_mac
from neutrino.dataplane.tc.real import RealTc
from tests.fakes.tc import FakeTc

MACS = ("fa:16:3e:00:00:01", "02:00:00:ff:00:00")
ITEMS: frozenset[Item] = frozenset(
    [
        *(match_mac(mac, offset, queue) for queue, mac in enumerate(MACS, 7) for offset in (-8, -12, 42)),
        *(QueueLength(queue, 10 + queue) for queue in (0, 7, 8)),
    ]
)


def tc(*arguments: str) -> str:
    return subprocess.run(["tc", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Tc, str]]:
    """A driver, and a device with the classes that Open vSwitch would create for queues 0, 7 and 8."""
    if request.param == "fake":
        yield FakeTc(), "eth1"
        return
    device = f"tc{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "link", "add", device, "type", "veth", "peer", "name", f"{device}p"], check=True)
    try:
        tc("qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        for minor in ("1", "8", "9"):
            tc("class", "add", "dev", device, "parent", "1:", "classid", f"1:{minor}", "htb", "rate", "1mbit")
        yield RealTc(), device
    finally:
        subprocess.run(["ip", "link", "delete", device], check=True)


def test_items_are_read_back_equal(place: tuple[Tc, str]) -> None:
    driver, device = place
    assert driver.read(device) == frozenset()
    driver.replace(device, ITEMS)
    assert driver.read(device) == ITEMS
    driver.replace(device, ITEMS)
    assert driver.read(device) == ITEMS


def test_items_are_added_changed_and_removed(place: tuple[Tc, str]) -> None:
    driver, device = place
    some = {match_mac(MACS[0], -8, 7), QueueLength(7, 5)}
    for items in (some, ITEMS, {QueueLength(7, 6), match_mac(MACS[1], -8, 7)}, some, set()):
        driver.replace(device, items)
        assert driver.read(device) == items


def test_a_mac_is_matched_where_it_is() -> None:
    assert match_mac(MACS[0], -8, 1) == Filter(1, (Word(0xFA163E00, 0xFFFFFFFF, -8), Word(0x00010000, 0xFFFF0000, -4)))
    assert match_mac(MACS[0], 42, 1) == Filter(1, (Word(0xFA16, 0xFFFF, 40), Word(0x3E000001, 0xFFFFFFFF, 44)))


@pytest.mark.parametrize("place", ["real"], indirect=True)
def test_filters_of_others_stay(place: tuple[Tc, str]) -> None:
    driver, device = place
    theirs = ("dev", device, "parent", "1:", "protocol", "all", "pref", "5", "u32", "match", "u32", "0", "0")
    tc("filter", "add", *theirs, "flowid", "1:8")
    driver.replace(device, ITEMS)
    driver.replace(device, set())
    assert driver.read(device) == frozenset()
    assert "pref 5 " in tc("filter", "show", "dev", device, "parent", "1:")


@pytest.mark.parametrize("place", ["real"], indirect=True)
def test_a_device_without_the_discipline(place: tuple[Tc, str]) -> None:
    driver, device = place
    tc("qdisc", "del", "dev", device, "root")
    assert driver.read(device) == frozenset()
    with pytest.raises(TcError, match=device):
        driver.replace(device, ITEMS)
    with pytest.raises(TcError, match="nothing0"):
        driver.read("nothing0")
