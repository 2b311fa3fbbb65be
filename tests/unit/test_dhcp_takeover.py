"""Neutron's dnsmasq is replaced, with the agent killed at any step: the next one completes it, and no lease is lost."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import pytest

from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.dhcp.render import daemon_name
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.supervisor import apply_service
from neutrino.dataplane.ovsdb.api import SetPort
from neutrino.dataplane.process.api import Daemon, ForeignProcess, Process
from tests.support.dhcp import NETWORK, dhcp_port, network, port, subnet
from tests.support.dhcp_fakes import DhcpHost

V6 = subnet(4, "2001:db8::/64", ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful")
OWN, INSTANCE = dhcp_port(0xD1, "2001:db8::2", on=(V6,)), port(1, "2001:db8::11", on=(V6,))
NAMESPACE = f"qdhcp-{NETWORK}"
EARLY = "4000000000 7 2001:db8::11 * 00:02\n"
LATE = "4000000001 7 2001:db8::11 * 00:02\n"
DUID = "duid 00:01\n"
T = TypeVar("T")


class Killed(BaseException):
    """Passes every handler of the agent, as SIGKILL does."""


class Machine(DhcpHost):
    """A host with Neutron's dnsmasq, which gives a lease just before it ends; the agent is killed at one of its steps."""

    def __init__(self, *, same: bool) -> None:
        self.left = -1  # steps until the agent is killed; negative: it is not
        super().__init__()
        directory = (self.directory if same else self.directory.parent / "neutron") / NETWORK
        directory.mkdir(parents=True)
        self.leases = directory / "leases"
        self.leases.write_text(DUID + EARLY)
        # The test's own process stands for it: /proc shows the files of that one.
        argv = ("dnsmasq", f"--pid-file={directory}/pid", f"--dhcp-leasefile={self.leases}")
        self.theirs = ForeignProcess(os.getpid(), argv)
        self.running = [self.theirs]
        self.netlink.create_namespace(NAMESPACE)
        name = f"tap{OWN.id[:11]}"
        self.netlink.add_device(NAMESPACE, name)
        self.ovsdb.apply([SetPort("br-int", name, "internal", external_ids={"iface-id": OWN.id})])

    def restart(self) -> None:
        super().restart()
        self.reconciler.leftovers = Leftovers(self.reconciler.services, self, "/state", enabled=False)
        self.reconciler.__post_init__()
        start = self.processes.start

        def start_daemon(daemon: Daemon) -> Process:
            assert not self.running, "both need the same sockets"
            return self._around(lambda: start(daemon))

        self.reconciler.settings = dataclasses.replace(self.settings, keeps_device=True)
        self.reconciler.processes.start = start_daemon  # type: ignore[method-assign]
        write = self.reconciler.dnsmasq.write_leases

        def write_leases(network_id: str, text: str) -> None:
            self._around(lambda: write(network_id, text))

        self.reconciler.dnsmasq.write_leases = write_leases  # type: ignore[method-assign]

    def serve(self, this: ServedNetwork) -> None:
        service, _ = self.reconciler.prepare(this)
        apply_service(service, self.reconciler.processes)

    def _around(self, change: Callable[[], T]) -> T:
        self._step()
        changed = change()
        self._step()
        return changed

    def _step(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= 1 if self.left > 0 else 0

    # --- processes of Neutron's agent ---

    def inside(self, namespace: str) -> list[ForeignProcess]:
        return list(self.running) if namespace == NAMESPACE else []

    def by_namespace(self, namespaces: Collection[str]) -> dict[str, list[ForeignProcess]]:
        return {NAMESPACE: self.inside(NAMESPACE)}

    def send(self, process: ForeignProcess, number: int) -> bool:
        return False

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        def end() -> None:
            self.leases.write_text(DUID + LATE)
            self.running.remove(process)

        self._around(end)


def test_the_last_leases_are_taken() -> None:
    machine = Machine(same=False)
    machine.serve(network((V6,), OWN, INSTANCE))
    assert machine.file(NETWORK, "leases") == DUID + LATE
    assert machine.running == []
    assert machine.is_running(NETWORK)


@pytest.mark.parametrize("same", [True, False], ids=["same directory", "other directory"])
def test_an_agent_that_is_killed_at_any_step_is_followed_by_one_that_completes_it(same: bool) -> None:
    this, steps = network((V6,), OWN, INSTANCE), 0
    while True:
        machine = Machine(same=same)
        machine.left = steps
        try:
            machine.serve(this)
        except Killed:
            steps += 1
        else:
            break
        served = machine.reconciler.is_running(NETWORK)
        assert served or not machine.running
        machine.restart()
        machine.serve(this)
        assert machine.running == []
        assert daemon_name(NETWORK) in machine.processes.running()
        leases = machine.file(NETWORK, "leases")
        # The lease that was given while the agent was being killed has another end; the client's identity is the same.
        assert leases in (DUID + EARLY, DUID + LATE), f"killed at step {steps - 1}"
        assert machine.reconciler.plan(this) == ([], ())
    assert steps >= 6


def test_a_respawned_dnsmasq_does_not_take_the_leases_again() -> None:
    machine = Machine(same=False)
    service, _ = machine.reconciler.prepare(network((V6,), OWN, INSTANCE))
    apply_service(service, machine.reconciler.processes)
    own = Path(machine.directory) / NETWORK / "leases"
    own.write_text(f"{DUID}4000000002 7 2001:db8::11 * 00:02\n")
    service.before_start()
    assert "4000000002" in own.read_text()


def test_before_the_first_sync_neutrons_dnsmasq_counts_as_running() -> None:
    machine = Machine(same=False)
    assert machine.reconciler.is_running(NETWORK)
    machine.running.clear()
    assert not machine.reconciler.is_running(NETWORK)
