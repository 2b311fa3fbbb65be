"""The lab that all tests of `qa.vhost_user` share, as a plugin of pytest: two hosts with all roles, of which the first has
DPDK, two guests on it, and an instance of the usual kind (a namespace) on each host.

    h1  Open vSwitch with DPDK     first, second: QEMU, vhost-user      near: a veth pair on the same bridge
    h2  Open vSwitch without                                            far: a veth pair, through a tunnel
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from neutrino.lab.hosts.ovs import SWITCH
from neutrino.model.objects import Object
from qa.kernel.guest import kernel_files
from qa.vhost_user.instance import GuestFiles, Instance, boot
from qa.vhost_user.switch import HOST, DpdkLab
from tests.support.addresses import pool
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, make_group
from tests.support.routing_lab import attach, external_network, make_router
from tests.support.shared_labs import wait_for_agents

ROOT = Path(__file__).resolve().parents[2]
OTHER_HOST = "h2"
LOGGED_LINES = 60
QUICK = "[agent]\nreport_interval = 5\n[DEFAULT]\nmin_rtr_adv_interval = 3\nmax_rtr_adv_interval = 4\n"
_labs: list[Lab] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print figures of tests that passed, and with a failure the ends of the lab's logs: its files are removed."""
    if report.passed and report.when == "call" and report.capstdout:
        print(f"\n{report.capstdout}", flush=True)
    if not report.failed:
        return
    for path in (path for lab in _labs for path in sorted(lab.paths.logs.glob("*.log"))):
        lines = path.read_text(errors="replace").splitlines()
        print(f"--- {path.name}", *lines[-LOGGED_LINES:], sep="\n", flush=True)


@dataclass(frozen=True)
class Cloud:
    lab: Lab
    files: GuestFiles
    group: str  # of all instances: admits everything
    network: Object
    subnets: dict[int, str]
    outside: Object  # the external network
    first: Instance
    second: Instance
    near: str = "near"
    far: str = "far"

    def instance(self, name: str, mode: str = "") -> Instance:
        """Another instance on the network and the host with DPDK, which is not bound yet; `mode`: of QEMU."""
        return _instance(self.lab, self.files, name, self.network, self.group, mode)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    directory = Path(tempfile.mkdtemp(prefix="vhost-user-"))
    agent = directory / "agent.conf"
    agent.write_text(QUICK)
    try:
        with temporary_lab(hosts=2, kind=DpdkLab, agent_config_files=(str(agent),)) as made:
            _labs.append(made)
            wait_for_agents(made)
            yield made
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def files() -> Iterator[GuestFiles]:
    directory = Path(tempfile.mkdtemp(prefix="vhost-guests-"))
    try:
        yield GuestFiles.made(kernel_files(ROOT / "build" / "kernel", print), directory)
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def cloud(lab: Lab, files: GuestFiles) -> Iterator[Cloud]:
    """Guests that have booted and have their addresses."""
    group, _ = make_group(lab, "open", *EVERYTHING)
    network = lab.api.create("network", name="blue")
    key = {"network_id": network["id"]}
    four = lab.api.create("subnet", **key, ip_version=4, cidr="10.0.0.0/24", **pool("10.0.0.0/24"))
    slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    six = lab.api.create("subnet", **key, ip_version=6, cidr="fd00:10::/64", **slaac)
    outside = external_network(lab)
    router = make_router(lab, outside, distributed=False)
    for subnet in (four, six):
        attach(lab, router, subnet)
    first, second = (_instance(lab, files, name, network, group) for name in ("first", "second"))
    made = Cloud(lab, files, group, network, {4: four["id"], 6: six["id"]}, outside, first, second)
    try:
        boot(first, second)
        for name, host in ((made.near, HOST), (made.far, OTHER_HOST)):
            lab.vm(name, network=network["id"], host=host, security_groups=[group])
        for instance in (first, second):
            instance.wait_for_addresses()
        yield made
    finally:
        first.stop()
        second.stop()


def _instance(lab: Lab, files: GuestFiles, name: str, network: Object, group: str, mode: str = "") -> Instance:
    port = lab.api.create("port", name=name, network_id=network["id"], security_groups=[group])
    return Instance(lab, files, name, HOST, port["id"], mode)


def switch_log(lab: Lab, host: str = HOST) -> str:
    return lab.log_tail(f"{host}-{SWITCH}", 1 << 20)
