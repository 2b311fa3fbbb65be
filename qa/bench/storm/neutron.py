"""OpenStack Neutron for the boot storm: its server, and its agents on lab hosts with their own Open vSwitch."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from neutrino.lab.hosts.processes import read_members
from qa.bench import processor
from qa.bench.storm import nova
from qa.bench.storm.clients import System
from qa.bench.storm.nova import Events
from qa.bench.workbench import progress
from qa.takeover.lab import neutron_lab
from qa.takeover.lab.configuration import Shape
from tests.support import memory

# Fewer than ours has roles: no L3 and no metadata agent, which this work does not need.
_AGENTS = ("neutron-openvswitch-agent", "neutron-dhcp-agent")
_PARTS = (
    *("mariadb", "rabbit", "uwsgi", "neutron-rpc-server", "neutron-periodic-workers"),
    *(*_AGENTS, "privsep", "ovs-vswitchd", "ovsdb-server", "dnsmasq"),
)
_EVENTS = "[DEFAULT]\nnotify_nova_on_port_status_changes = true\nnotify_nova_on_port_data_changes = true\n"


@contextmanager
def running(hosts: int, events: Events, directory: Path) -> Iterator[System]:
    shape = Shape(hosts=hosts, agents=_AGENTS, hybrid_host="", server=_EVENTS + nova.configuration(events))
    with neutron_lab.running(directory / "neutron", lambda text: progress(f"Neutron: {text}"), shape=shape) as neutron:
        lab = neutron.lab
        yield System(lab, neutron.endpoints.api, lambda: _spent(lab.paths.state))


def _spent(state: Path) -> Mapping[str, float]:
    """The processor time of the lab's processes, and of the servers, which are children of this process."""
    spent: dict[str, float] = defaultdict(float)
    for pid in {*read_members(state), *memory.tree(os.getpid())} - {os.getpid()}:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        own, children = processor.of_process(pid)
        spent[next((part for part in _PARTS if part in words), "other")] += own
        spent["programs"] += children
    return spent
