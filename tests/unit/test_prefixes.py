"""Choosing prefixes: the lowest free one, also where a pool is huge or nearly full."""

from __future__ import annotations

import ipaddress
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neutrino.server.ipam import prefixes


def test_adjacent_prefixes_are_joined() -> None:
    assert prefixes.compact(["10.129.0.0/16", "10.128.0.0/16"]) == ["10.128.0.0/15"]


def test_ranges_that_are_no_prefix_stay_several() -> None:
    assert prefixes.compact(["10.1.0.0/16", "10.2.0.0/16", "10.2.5.0/24"]) == ["10.1.0.0/16", "10.2.0.0/16"]


def test_the_lowest_free_prefix_is_aligned_behind_smaller_ones() -> None:
    assert prefixes.lowest_free(["10.128.0.0/15"], [], 26) == "10.128.0.0/26"
    assert prefixes.lowest_free(["10.128.0.0/15"], ["10.128.0.0/26"], 24) == "10.128.1.0/24"
    assert prefixes.lowest_free(["10.128.0.0/15"], ["10.128.0.0/26", "10.128.1.0/24"], 26) == "10.128.0.64/26"


def test_a_gap_is_used_before_the_end() -> None:
    taken = ["10.0.0.0/24", "10.0.2.0/24"]
    assert prefixes.lowest_free(["10.0.0.0/22"], taken, 24) == "10.0.1.0/24"


def test_a_full_pool_has_none_left() -> None:
    assert prefixes.lowest_free(["10.0.0.0/24"], ["10.0.0.0/25", "10.0.0.128/26"], 25) is None
    assert prefixes.lowest_free([], [], 24) is None


def test_the_second_prefix_of_a_pool_is_used_when_the_first_is_full() -> None:
    assert prefixes.lowest_free(["10.0.0.0/24", "10.9.0.0/24"], ["10.0.0.0/24"], 24) == "10.9.0.0/24"


def test_an_ipv6_pool_of_a_whole_site_is_searched_at_once() -> None:
    taken = [f"2001:db8:f000:{i:x}::/64" for i in range(10_000)]
    prefixes.lowest_free(["2001:db8:f000::/40"], taken, 64)  # the texts are parsed once
    begin = time.process_time()  # one after the other, it would take hours
    assert prefixes.lowest_free(["2001:db8:f000::/40"], taken, 64) == "2001:db8:f000:2710::/64"
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("cidr", "free"),
    [
        ("10.129.4.0/25", False),
        ("10.129.5.0/24", True),
        ("10.200.4.0/24", False),
        ("10.0.0.0/8", False),
        ("2001:db8::/64", False),
    ],
)
def test_a_given_prefix_must_be_in_the_pool_and_free(cidr: str, free: bool) -> None:
    assert prefixes.is_free(["10.128.0.0/15"], ["10.129.4.0/24"], cidr) is free


def test_quota_is_counted_in_addresses_or_in_64s() -> None:
    assert prefixes.within_quota(4, [], 24, 256)
    assert not prefixes.within_quota(4, ["10.0.0.0/32"], 24, 256)
    assert prefixes.within_quota(6, ["2001:db8::/64", "2001:db8:0:1::/64"], 64, 3)
    assert not prefixes.within_quota(6, ["2001:db8::/63", "2001:db8:0:2::/64"], 64, 3)
    assert prefixes.within_quota(6, ["2001:db8::/65"], 65, 1)


def test_covers_handles_both_ip_versions() -> None:
    assert prefixes.covers(["10.0.0.0/8", "2001:db8::/32"], ["10.1.0.0/16"])
    assert not prefixes.covers(["10.0.0.0/9"], ["10.0.0.0/8"])
    assert not prefixes.covers([], ["10.0.0.0/8"])
    assert not prefixes.covers(["2001:db8::/32"], ["10.0.0.0/8"])


SMALL = st.builds(
    lambda number, length: str(ipaddress.ip_network((number & (-1 << (32 - length)) & 0xFFFFFFFF, length))),
    st.integers(0x0A000000, 0x0A0000FF),
    st.integers(25, 32),
)


def addresses(cidrs: list[str]) -> set[int]:
    return {int(address) for cidr in cidrs for address in ipaddress.ip_network(cidr)}


@given(st.lists(SMALL, min_size=1, max_size=6), st.lists(SMALL, max_size=12), st.integers(25, 32))
def test_the_choice_is_the_lowest_of_all_that_are_free(pool: list[str], taken: list[str], length: int) -> None:
    free = addresses(pool) - addresses(taken)
    size = 1 << (32 - length)
    fitting = [n for n in range(0x0A000000, 0x0A000100, size) if all(n + i in free for i in range(size))]
    expected = f"{ipaddress.ip_address(fitting[0])}/{length}" if fitting else None
    assert prefixes.lowest_free(pool, taken, length) == expected


@given(st.lists(SMALL, min_size=1, max_size=6), st.lists(SMALL, max_size=6))
def test_subtracting_leaves_exactly_the_rest(whole: list[str], taken: list[str]) -> None:
    left = prefixes.cidrs(prefixes.subtract(prefixes.spans(whole), prefixes.spans(taken)), 4)
    assert addresses(left) == addresses(whole) - addresses(taken)
    assert prefixes.overlap(whole, taken) is bool(addresses(whole) & addresses(taken))
