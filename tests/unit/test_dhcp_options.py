"""Names of DHCP options: what the server accepts, and what the agent keeps from dnsmasq."""

from __future__ import annotations

import pytest

from neutrino.model.dhcp_options import is_known, number_of


@pytest.mark.parametrize(
    ("name", "version", "number"),
    [
        ("mtu", 4, 26),
        ("MTU", 4, 26),
        ("t1", 4, 58),
        ("nis+-domain", 6, 30),
        ("150", 4, 150),
        ("255", 4, 255),
        ("0067", 4, 67),
        ("1000", 6, 1000),
        *(
            (name, 4, None)
            for name in ("wpad", "bootfile-url", "0", "256", "", " mtu", "mtu ", "option:mtu", "67,x", "hostname")
        ),
        *((name, 6, None) for name in ("mtu", "65536", "999999", "client-id", "\u0663")),
    ],
)
def test_names_and_numbers(name: str, version: int, number: int | None) -> None:
    assert number_of(name, version) == number


@pytest.mark.parametrize("tags", ["", "tag:ipxe,", "tag:!ipxe,tag:x,"])
def test_tags_before_the_name(tags: str) -> None:
    assert [is_known(f"{tags}{name}", 4) for name in ("mtu", "67", "no-such", "256")] == [True, True, False, False]


def test_a_name_of_the_other_ip_version_is_accepted() -> None:
    assert [is_known(name, 6) for name in ("tftp-server", "bootfile-url", "no-such")] == [True, True, False]


def test_a_client_id_is_known_without_tags() -> None:
    assert is_known("client-id", 4)
    assert not is_known("tag:x,client-id", 4), "dnsmasq does not send it"
