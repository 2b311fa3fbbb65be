"""A lab of two hosts on the kernel datapath, which all tests of `tests.kernel` that need a whole cloud share: it takes
minutes to build where the guest is emulated. A plugin of pytest, as conftest files are not read there.

NEUTRINO_TEST_DATAPATH=netdev runs the same tests on the userspace datapath, without a guest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.lab import temporary_lab, wait_until
from tests.support.lab_control import Lab

DATAPATH = os.environ.get("NEUTRINO_TEST_DATAPATH", "system")
AGENTS = {"Open vSwitch agent", "DHCP agent", "L3 agent", "Metadata agent"}
START_SECONDS = 30.0


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with temporary_lab(hosts=2, datapath=DATAPATH) as made:
        wait_until(lambda: _alive(made) == AGENTS, START_SECONDS, "not all agents are alive on both hosts")
        yield made


def _alive(lab: Lab) -> set[str]:
    """The types of agents that are alive on every host."""
    found = [agent for agent in lab.api.list("agent") if agent["alive"]]
    return set.intersection(*({agent["agent_type"] for agent in found if agent["host"] == host} for host in lab.hosts))
