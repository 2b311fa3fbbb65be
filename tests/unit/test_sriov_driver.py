"""The driver of SR-IOV cards: what the kernel's messages and sysfs mean. `qa/kernel/sriov.py` uses it on a card."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols import rtnetlink as nl
from neutrino.dataplane.sriov.api import LinkState, SetFunction, Setting, Settings, SriovError
from neutrino.dataplane.sriov.real import RealSriov, decode, encode
from neutrino.dataplane.sriov.sysfs import Slot, read_slots

MAC = bytes.fromhex("fa163e000001")
OFF = 0xFFFFFFFF


def info(spoof: int = 1, trust: int = 0, link: int = 0) -> bytes:
    numbers = {
        linux.IFLA_VF_VLAN: (3, 100, 0),
        linux.IFLA_VF_RATE: (3, 5, 10),
        linux.IFLA_VF_SPOOFCHK: (3, spoof),
        linux.IFLA_VF_LINK_STATE: (3, link),
        linux.IFLA_VF_TRUST: (3, trust),
    }
    mac = nl.attribute(linux.IFLA_VF_MAC, struct.pack("=I", 3) + MAC + bytes(26))
    return mac + b"".join(nl.attribute(type_, struct.pack(f"={len(v)}I", *v)) for type_, v in numbers.items())


def test_a_function_as_the_kernel_shows_it() -> None:
    settings = Settings(100, spoof_check=True, trust=False, link_state=LinkState.DISABLE, max_rate=10, min_rate=5)
    assert decode(info(link=2)) == (3, MAC.hex(":"), settings)


def test_what_a_driver_does_not_tell() -> None:
    _, _, settings = decode(info(spoof=OFF, trust=OFF, link=7))
    assert (settings.spoof_check, settings.trust, settings.link_state) == (None, None, LinkState.AUTO)
    bare = nl.attribute(linux.IFLA_VF_MAC, struct.pack("=I", 0) + MAC + bytes(26))
    assert decode(bare)[2] == Settings(spoof_check=None, trust=None)


@pytest.mark.parametrize(
    ("change", "type_", "numbers"),
    [
        (SetFunction("e", 3, Setting.VLAN, 100), linux.IFLA_VF_VLAN, (3, 100, 0)),
        (SetFunction("e", 3, Setting.SPOOF_CHECK, 0), linux.IFLA_VF_SPOOFCHK, (3, 0)),
        (SetFunction("e", 3, Setting.TRUST, 1), linux.IFLA_VF_TRUST, (3, 1)),
        (SetFunction("e", 3, Setting.LINK_STATE, LinkState.ENABLE), linux.IFLA_VF_LINK_STATE, (3, 1)),
        (SetFunction("e", 3, Setting.MAX_RATE, 10, 5), linux.IFLA_VF_RATE, (3, 5, 10)),
        (SetFunction("e", 3, Setting.MIN_RATE, 5, 10), linux.IFLA_VF_RATE, (3, 5, 10)),
    ],
)
def test_a_change_as_the_kernel_gets_it(change: SetFunction, type_: int, numbers: tuple[int, ...]) -> None:
    assert dict(nl.read_attributes(encode(change), 0)) == {type_: struct.pack(f"={len(numbers)}I", *numbers)}


def test_functions_in_sysfs(tmp_path: Path) -> None:
    """One that is free, one that an instance has, one with a macvtap device, and one without a link to its PCI slot."""
    card = tmp_path / "class/net/ens1/device"
    card.mkdir(parents=True)
    for number in (0, 1, 2):
        function = tmp_path / f"devices/0000:03:10.{number}"
        function.mkdir(parents=True)
        (card / f"virtfn{number}").symlink_to(function)
    (tmp_path / "devices/0000:03:10.0/net/ens1v0").mkdir(parents=True)
    (tmp_path / "devices/0000:03:10.2/net/ens1v2/upper_macvtap0").mkdir(parents=True)
    (card / "virtual").mkdir()
    assert read_slots("ens1", tmp_path) == {
        0: Slot("0000:03:10.0", ("ens1v0",), ""),
        1: Slot("0000:03:10.1", (), ""),
        2: Slot("0000:03:10.2", ("ens1v2",), "macvtap0"),
    }
    assert read_slots("gone", tmp_path) == {}


def test_devices_that_are_no_cards() -> None:
    sriov = RealSriov()
    assert sriov.read(["lo", "no-such-device"]).keys() == {"lo"}
    assert sriov.read(["lo"])["lo"].functions == ()
    with pytest.raises(SriovError, match="no-such-device"):
        sriov.set(SetFunction("no-such-device", 0, Setting.VLAN, 1))
    with pytest.raises(SriovError) as refused:
        sriov.set(SetFunction("lo", 0, Setting.TRUST, 1))
    assert refused.value.is_unsupported
    assert sriov.forwarded("lo") == frozenset()
