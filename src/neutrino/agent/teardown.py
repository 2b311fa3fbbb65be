"""Removes what an agent has created on a host, by the records in its state directory.

An agent that ends leaves its dataplane in place, so that instances do not notice. Removing it is for a host that stops
being one: `neutrino up` does it at its end, and at its start for a run that was killed. Bridges are left to the caller,
who knows whether the switch itself stays.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.bgp import build as bgp
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.l3 import fip, routers
from neutrino.agent.l3.names import fip_namespace, router_namespace, snat_namespace
from neutrino.agent.l3.services.bfd import supervision as bfd
from neutrino.agent.l3.services.charon import tunnels
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.real import RealProcesses


def tear_down(conf: cfg.ConfigOpts) -> None:
    """Idempotent. Processes first: one that runs in a namespace would keep it, and its devices, alive."""
    namespaces = Namespaces()
    end_daemons(conf)
    dnsmasq = Dnsmasq(conf.dhcp_confs, namespaces)
    for network_id in dnsmasq.networks():
        dnsmasq.stop_all(network_id)  # also one whose pid file is lost
    existing = namespaces.names()
    for name in _recorded(Path(conf.state_path), dnsmasq):
        if name in existing:
            namespaces.delete(name)  # deletes the inner ends of veth pairs, and with them the outer ones
    forget(conf)


def end_daemons(conf: cfg.ConfigOpts) -> None:
    """End all daemons of this agent."""
    processes = RealProcesses(conf.state_path)
    for process in processes.running().values():
        processes.stop(process)


def forget(conf: cfg.ConfigOpts) -> None:
    """Remove the records of routers, and the files of their daemons."""
    for directory in (bgp.DIRECTORY, bfd.DIRECTORY, tunnels.DIRECTORY):
        shutil.rmtree(Path(conf.state_path) / directory, ignore_errors=True)
    for records in (routers.RECORDS, fip.RECORDS):
        for name in list_directory(Path(conf.state_path) / records):
            (Path(conf.state_path) / records / name).unlink()


def _recorded(state: Path, dnsmasq: Dnsmasq) -> Iterator[str]:
    """Namespaces that the agent has created or was about to create."""
    yield from (f"{NAMESPACE_PREFIX}{network_id}" for network_id in sorted(dnsmasq.networks()))
    for router_id in list_directory(state / routers.RECORDS):
        yield router_namespace(router_id)
        yield snat_namespace(router_id)
    yield from map(fip_namespace, list_directory(state / fip.RECORDS))
