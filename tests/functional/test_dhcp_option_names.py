"""The table of DHCP option names against the real dnsmasq."""

from __future__ import annotations

import subprocess

import pytest

from neutrino.model.dhcp_options import NUMBERS


def printed(family: str) -> dict[str, int]:
    text = subprocess.run(["dnsmasq", "--help", family], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit()}


@pytest.mark.parametrize(("version", "family"), [(4, "dhcp"), (6, "dhcp6")])
def test_the_table_has_the_names_that_dnsmasq_knows(version: int, family: str) -> None:
    known = printed(family)
    assert known
    assert {name: known.get(name) for name in NUMBERS[version]} == NUMBERS[version]
    release = subprocess.run(["dnsmasq", "--version"], capture_output=True, text=True, check=True).stdout
    newer = {} if " 2.90 " in release else known.keys() - NUMBERS[version].keys()  # hosts may have 2.90
    assert known.keys() - newer == NUMBERS[version].keys()
