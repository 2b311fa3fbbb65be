"""Removes an agent's namespaces and daemons where its caller removes the switch: `neutrino up`, and a host given back."""

import shutil
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.bgp import build as bgp
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.l3 import fip, routers
from neutrino.agent.l3.services.bfd import supervision as bfd
from neutrino.agent.l3.services.charon import tunnels
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.agent.sriov.build import card_teardown
from neutrino.agent.sriov.teardown import tear_down as tear_down_cards
from neutrino.agent.teardown.records import Records
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.real import RealProcesses


def tear_down(conf: cfg.ConfigOpts) -> None:
    """Idempotent. Processes first: one that runs in a namespace would keep it, and its devices, alive."""
    namespaces, records = Namespaces(), Records(conf)
    end_daemons(conf)
    dnsmasq = Dnsmasq(conf.dhcp_confs, namespaces)
    for network_id in records.networks():
        dnsmasq.stop_all(network_id)  # also one whose pid file is lost
    for name in sorted(records.namespaces() & namespaces.names()):
        namespaces.delete(name)  # deletes the inner ends of veth pairs, and with them the outer ones
    if "sriov" in conf.roles:
        tear_down_cards(card_teardown(conf))
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
