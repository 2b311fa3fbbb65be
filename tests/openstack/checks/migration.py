"""Live migration between the hosts, under ping: no packet is lost beyond the time that QEMU itself pauses the guest."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from neutrino.lab.hosts.namespaces import host_command
from tests.openstack.checks.expect import CheckError, expect, until
from tests.openstack.checks.servers import Server, ping, running
from tests.openstack.cloud import EXTERNAL, Cloud
from tests.openstack.services.libvirt import virsh

INTERVAL = 0.05  # seconds between two packets
MIGRATION_SECONDS = 300.0
# Beside the pause: the guest's own processing when it runs again, on a processor that others use too.
TOLERANCE = 0.5
_ANSWER = re.compile(r"icmp_seq=(\d+)")
_DOWNTIME = re.compile(r"Total downtime:\s+([\d.]+) (\w+)")


@dataclass
class Pinging:
    """Packets to an address every INTERVAL, from the external machine."""

    answered: list[int] = field(default_factory=list)
    sent: int = 0

    @property
    def longest_gap(self) -> float:
        """The longest time without an answer, in seconds."""
        return longest_gap(self.answered, self.sent)


def longest_gap(answered: list[int], sent: int) -> float:
    """The seconds that the longest run of consecutive packets without an answer took. Pure."""
    known, longest, run = set(answered), 0, 0
    for number in range(1, sent + 1):
        run = 0 if number in known else run + 1
        longest = max(longest, run)
    return longest * INTERVAL


@contextmanager
def pinging(cloud: Cloud, address: str) -> Iterator[Pinging]:
    argv = ["ping", "-n", "-i", str(INTERVAL), address]
    process = subprocess.Popen(
        host_command(cloud.lab.holder(EXTERNAL), argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    result = Pinging()
    assert process.stdout is not None
    output = process.stdout

    def read() -> None:
        for line in output:
            if "bytes from" in line and (found := _ANSWER.search(line)):
                result.answered.append(int(found[1]))
            elif "packets transmitted" in line:
                result.sent = int(line.split()[0])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield result
    finally:
        process.send_signal(2)  # prints the statistics
        process.wait(10)
        reader.join(10)


def qemu_pause(cloud: Cloud, host: str, domain: str) -> float:
    """The seconds for which QEMU stopped the guest, as libvirt on the target measured them."""
    text = virsh(cloud, host, "domjobinfo", domain, "--completed")
    found = _DOWNTIME.search(text)
    if found is None:
        raise CheckError(f"libvirt has no statistics of the migration: {text.strip()}")
    return float(found[1]) * {"ms": 0.001, "s": 1.0}[found[2]]


def check_live_migration(cloud: Cloud) -> str:
    """Two hosts, there and back, under ping from outside: packets are lost for no longer than QEMU's pause."""
    there, here = cloud.hosts[1], cloud.hosts[0]
    notes = []
    with running(cloud, "migrated", host=here) as server:
        floating, address = server.floating_ip(), server.address
        until(lambda: ping(cloud, floating), "ping before", 60)
        for target in (there, here):
            with pinging(cloud, floating) as packets:
                time.sleep(1)
                seconds = migrate(server, target)
                until(lambda: ping(cloud, floating), f"ping on {target}", 60)
                time.sleep(1)
            pause = _pause(cloud, server)
            lost = packets.sent - len(set(packets.answered))
            notes.append(
                f"to {target} {seconds:.1f} s, QEMU's pause {pause * 1000:.0f} ms, longest gap "
                f"{packets.longest_gap * 1000:.0f} ms, {lost} of {packets.sent} packets lost"
            )
            cloud.say(notes[-1])
            expect(packets.longest_gap <= pause + TOLERANCE, notes[-1])
            expect(server.address == address, f"the address was {address}, and is {server.address}")
            _check_bindings(server, target)
    return "; ".join(notes)


def migrate(server: Server, target: str) -> float:
    """Live-migrate a server to a host; returns the seconds that it took."""
    began = time.monotonic()
    server.admin.compute.live_migrate_server(server.id, host=target, block_migration="auto")

    def is_there() -> bool:
        shown = server.show()
        expect(shown.status != "ERROR", f"live migration: {(shown.fault or {}).get('message', 'ERROR')}")
        if shown.status == "ACTIVE" and shown.task_state is None:
            done = [each.status for each in server.admin.compute.migrations(instance_uuid=server.id)]
            expect("failed" not in done and "error" not in done, f"live migration to {target}: {done}")
            return bool(shown.compute_host == target)
        return False

    until(is_there, f"the server runs on {target}", MIGRATION_SECONDS)
    return time.monotonic() - began


def _pause(cloud: Cloud, server: Server) -> float:
    domain = server.show().instance_name
    return qemu_pause(cloud, server.host, domain)


def _check_bindings(server: Server, target: str) -> None:
    port = server.port
    until(lambda: server.port.status == "ACTIVE", "the port is ACTIVE", 30)
    expect(port.binding_host_id == target, f"the port is bound to {port.binding_host_id}, and not to {target}")
    answer = server.admin.network.get(f"/ports/{port.id}/bindings")
    bindings = {each["host"]: each["status"] for each in answer.json()["bindings"]}
    expect(bindings == {target: "ACTIVE"}, f"bindings after the migration: {bindings}")
