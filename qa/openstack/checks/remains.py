"""What a cloud has on its hosts and in neutrino's database, compared before and after: deletion leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from qa.openstack.checks.expect import CheckError, until
from qa.openstack.cloud import Cloud

# Tables that grow with time, and not with what exists.
LOGS = frozenset({"change_head", "changes", "host_queries", "server_processes", "agents", "journal"})
BRIDGES = ("br-int", "br-tun")
SECONDS = 60.0


@dataclass(frozen=True)
class State:
    """Lines that name what exists."""

    database: frozenset[str]
    hosts: frozenset[str]

    def differences(self, later: State) -> list[str]:
        """What has come since, and what has gone."""
        before, after = self.database | self.hosts, later.database | later.hosts
        return [f"+ {line}" for line in sorted(after - before)] + [f"- {line}" for line in sorted(before - after)]


def read_state(cloud: Cloud) -> State:
    """Rows of every table; on each host ports, flows, devices, namespaces with their addresses, iptables and instances."""
    return State(frozenset(_rows(cloud)), frozenset(line for host in cloud.hosts for line in _host(cloud, host)))


def _rows(cloud: Cloud) -> Iterator[str]:
    tables = [name for name in cloud.sql("SHOW TABLES", "neutrino").split() if name not in LOGS]
    counts = " UNION ALL ".join(f"SELECT '{name}', COUNT(*) FROM `{name}`" for name in tables)
    for line in cloud.sql(counts, "neutrino").splitlines():
        table, number = line.split("\t")
        yield f"database: {number} rows in {table}"


def _host(cloud: Cloud, host: str) -> Iterator[str]:
    questions = {
        "port": "ovs-vsctl --format=csv --data=bare --no-headings --columns=name list Port",
        "device": "ls /sys/class/net",
        "namespace": "ip netns list | cut -d' ' -f1",
        "iptables": "iptables-save | grep '^-A'; ip6tables-save | grep '^-A'",
        "instance": "virsh --connect qemu:///system list --all --name",
        **{
            f"flow of {bridge}": f"ovs-ofctl --no-stats dump-flows {bridge} | sed 's/cookie=[^,]*, //'"
            for bridge in BRIDGES
        },
    }
    for what, command in questions.items():
        for line in cloud.run(["sh", "-c", command], host=host, check=False).stdout.splitlines():
            if line.strip():
                yield f"{host}: {what} {line.strip()}"
    addresses = (
        "for n in $(ip netns list | cut -d' ' -f1); do ip -n $n -o addr | sed \"s/^[0-9]*: /$n /; s/valid.*//\"; done"
    )
    for line in cloud.run(["sh", "-c", addresses], host=host, check=False).stdout.splitlines():
        yield f"{host}: address {' '.join(line.split())}"


@contextmanager
def nothing_remains(cloud: Cloud) -> Iterator[None]:
    """After the block the cloud has what it had before it, at the latest after SECONDS."""
    before = _settled(cloud)
    yield
    found: list[str] = []

    def is_same() -> bool:
        found[:] = before.differences(read_state(cloud))
        return not found

    try:
        until(is_same, "nothing remains", SECONDS)
    except CheckError as error:
        raise CheckError(f"{error}: {len(found)} differences\n" + "\n".join(found[:40])) from None


def _settled(cloud: Cloud) -> State:
    """The state, once two readings are the same: what a previous check has deleted may still be going."""
    for _ in range(10):
        first = read_state(cloud)
        time.sleep(2)
        if not first.differences(read_state(cloud)):
            return first
    raise CheckError("rows, switch ports or flows still change although no server is left")
