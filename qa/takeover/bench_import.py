"""Duration and memory of an import: `python -m qa.takeover.bench_import [--ports 100000] [--database mariadb]`.

The recorded database of Neutron (tests/data/takeover) with further ports of instances, in a temporary server, is imported
into a database of ours on the same server by the command `neutrino takeover import`: as a whole, with 1,000 changed ports,
and without a difference.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from qa.bench import databases
from qa.bench.workbench import progress
from tests.support.neutron_database import load

_BATCH = 5000
_PER_NETWORK = 4000
_CHANGED = 1000
_FIRST_STANDARD = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", type=int, default=100_000)
    parser.add_argument("--database", choices=("mariadb", "postgresql"), default="mariadb")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neutrino-bench-") as place, databases.running(options.database) as server:
        for name in ("neutron", "neutrino"):
            server.create_database(name)
        progress(f"{options.ports} ports into a database of Neutron")
        load(server.url("neutron"))
        engine = sa.create_engine(server.url("neutron"))
        fill(engine, options.ports)
        directory = Path(place)
        (directory / "source").write_text(server.url("neutron"))
        connection = server.url("neutrino").replace("$", "$$")
        (directory / "neutrino.conf").write_text(
            f"[DEFAULT]\nstate_path = {directory}\n[database]\nconnection = {connection}\n"
        )
        seconds = [_import(directory)]
        with engine.begin() as connection_:
            first = f"{_FIRST_STANDARD + _CHANGED}"
            connection_.execute(sa.text(f"UPDATE ports SET name = 'changed' WHERE standard_attr_id < {first}"))
        seconds += [_import(directory), _import(directory)]
        engine.dispose()
        # Before the database server ends: it is a child process too.
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    for what, taken in zip(("all", "1,000 changed", "nothing changed"), seconds, strict=True):
        print(f"{options.ports} ports, {options.database}, {what}: {taken:.1f} s")
    print(f"memory of the command: {memory:.0f} MB at most")
    return 0


def fill(engine: sa.Engine, number: int) -> None:
    """Ports of instances, bound and with an address, on further networks and subnets."""
    metadata = sa.MetaData()
    metadata.reflect(engine, resolve_fks=False)
    with engine.begin() as connection:
        for name in ("ipallocations", "ml2_port_bindings", "portsecuritybindings"):  # as Neutron's schema has them
            connection.execute(sa.text(f"CREATE INDEX ix_{name}_port_id ON {name} (port_id)"))
        for name in ("ports", "networks", "subnets", "networksegments"):
            connection.execute(sa.text(f"CREATE UNIQUE INDEX ix_{name}_standard ON {name} (standard_attr_id)"))
        for start in range(0, number, _BATCH):
            rows: dict[str, list[dict[str, object]]] = {}
            for table, row in _ports(start, min(start + _BATCH, number)):
                rows.setdefault(table, []).append(row)
            for name, some in rows.items():
                connection.execute(sa.insert(metadata.tables[name]), some)


def _ports(start: int, end: int) -> Iterator[tuple[str, dict[str, object]]]:
    for index in range(start, end):
        network = f"00000000-0000-4000-8000-{index // _PER_NETWORK:012x}"
        subnet = f"00000000-0000-4000-9000-{index // _PER_NETWORK:012x}"
        if index % _PER_NETWORK == 0:
            yield from _network(index // _PER_NETWORK, network, subnet)
        port, offset = str(uuid.UUID(int=uuid.uuid4().int)), index % _PER_NETWORK + 10
        standard = _FIRST_STANDARD + index
        yield "standardattributes", {"id": standard, "resource_type": "ports", "revision_number": 3, "description": ""}
        mac = f"fa:16:3e:{index >> 16 & 255:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"
        common = {"admin_state_up": True, "status": "ACTIVE", "ip_allocation": "immediate"}
        owner = {"device_owner": "compute:nova", "device_id": str(uuid.uuid4()), "name": f"vm-{index}"}
        yield (
            "ports",
            {"id": port, "project_id": "bench", "network_id": network, "mac_address": mac, "standard_attr_id": standard}
            | common
            | owner,
        )
        address = f"10.{index // _PER_NETWORK % 200}.{offset >> 8}.{offset & 255}"
        yield "ipallocations", {"port_id": port, "ip_address": address, "subnet_id": subnet, "network_id": network}
        yield "portsecuritybindings", {"port_id": port, "port_security_enabled": True}
        binding = {"vif_type": "ovs", "vnic_type": "normal", "profile": "", "vif_details": "{}", "status": "ACTIVE"}
        yield "ml2_port_bindings", {"port_id": port, "host": f"compute-{index % 200}", **binding}


def _network(index: int, network: str, subnet: str) -> Iterator[tuple[str, dict[str, object]]]:
    for offset, kind in enumerate(("networks", "subnets", "networksegments")):
        standard = {"id": _FIRST_STANDARD * 9 + 3 * index + offset, "resource_type": kind, "revision_number": 1}
        yield "standardattributes", {**standard, "description": ""}
    standard_id = _FIRST_STANDARD * 9 + 3 * index
    network_row = {"id": network, "project_id": "bench", "name": f"net-{index}", "status": "ACTIVE", "mtu": 1450}
    yield "networks", {**network_row, "admin_state_up": True, "standard_attr_id": standard_id}
    segment = {
        "id": str(uuid.uuid4()),
        "network_id": network,
        "network_type": "vxlan",
        "segmentation_id": 100_000 + index,
    }
    yield "networksegments", {**segment, "is_dynamic": False, "segment_index": 0, "standard_attr_id": standard_id + 2}
    subnet_row = {"id": subnet, "project_id": "bench", "network_id": network, "ip_version": 4, "enable_dhcp": True}
    cidr = f"10.{index % 200}.0.0/16"
    yield "subnets", {**subnet_row, "cidr": cidr, "name": "", "standard_attr_id": standard_id + 1}


def _import(directory: Path) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("neutrino"), "takeover", "import", "--from-file", directory / "source"),
            *("--config-file", directory / "neutrino.conf"),
        ],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the import ended with {done.returncode}: {(done.stdout + done.stderr).decode()[-2000:]}")
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
