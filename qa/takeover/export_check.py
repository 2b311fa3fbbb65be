"""The way back, with a real Neutron: `python -m qa.takeover.export_check`.

The recorded rows (tests/data/takeover), in a MariaDB with the schema of Neutron's own migrations, are imported. Through the
API of our server every kind of object is created, changed and deleted, and the changes are exported. Then the real Neutron
starts on its database, its answers are compared with ours, and it creates ports, networks and floating IPs beside the
exported ones. Neutron is installed by `scripts/setup neutron`. Takes some minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import sqlalchemy as sa

from neutrino.server.db.transaction import now
from neutrino.takeover.comparison import compare, read_answers
from neutrino.takeover.families import collections
from qa.bench import databases
from qa.bench.neutron import processes
from qa.takeover import neutron
from qa.takeover.client import Client
from qa.takeover.releases import fill
from tests.support.neutrino import Neutrino
from tests.support.rabbitmq import RabbitMQ
from tests.support.takeover_changes import change_everything

PROJECT = "0c" * 16
_SEGMENTS = "SELECT network_type, physical_network, segmentation_id FROM networksegments"
QUOTAS = ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule", "rbac_policy")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="neutrino-export-") as directory, ExitStack() as stack:
        mariadb = stack.enter_context(databases.running("mariadb"))
        broker = stack.enter_context(RabbitMQ())
        for name in ("neutron", "neutrino"):
            mariadb.create_database(name)
        url = mariadb.url("neutron")
        place = neutron.write_files(Path(directory) / "neutron", url, broker.url)
        _say("neutron-db-manage upgrade heads")
        processes.migrate(place)
        engine = sa.create_engine(url)
        _say(f"{fill(engine)} rows of a Neutron")
        (Path(directory) / "neutron-url").write_text(url)
        server = stack.enter_context(_server(mariadb.url("neutrino"), Path(directory)))
        ours = Client(server.url, PROJECT)
        _say("changing every kind of object")
        change_everything(ours.call)
        _write_reports(sa.create_engine(mariadb.url("neutrino")))
        to = ("--to-file", f"{directory}/neutron-url")
        print(_command(server.config, "export", *to), end="")
        again = _command(server.config, "export", *to, "--dry-run")
        _say("starting Neutron")
        with processes.running(place) as (running, _pids):
            theirs = Client(running.url, PROJECT)
            read_answers(theirs.get, collections())  # lists create default groups, which the first ones do not show
            answers = read_answers(theirs.get, collections())
            own = read_answers(ours.get, collections())
            differences = list(compare(answers, own))
            number = sum(map(len, answers.values()))
            failures = [*(str(one) for one in differences), *_go_on(theirs, engine)]
        engine.dispose()
    for line in failures:
        print(line)
    print(f"{number} objects compared, {len(differences)} differences; a second export would write:")
    print("\n".join(again.splitlines()[1:]) or "nothing")
    return 1 if failures else 0


def _server(database: str, directory: Path) -> Neutrino:
    """Our server on a database that was imported and opened; the imported agents are alive."""
    server = Neutrino(
        {
            "DEFAULT": {"dns_domain": "example.org.", "max_l3_agents_per_router": 2, "dhcp_agents_per_network": 1},
            "database": {"connection": database},
            "ml2": {"tenant_network_types": "vxlan"},
            "ml2_type_vlan": {"network_vlan_ranges": "physical:100:120"},
            "ml2_type_vxlan": {"vni_ranges": "1001:1020"},
            "ml2_type_flat": {"flat_networks": "public"},
            "quotas": {f"quota_{name}": -1 for name in QUOTAS},
        }
    )
    source = ("--from-file", f"{directory}/neutron-url")
    _say(_command(server.config, "import", *source, "--final").splitlines()[0])
    _command(server.config, "open", "--despite-hosts", ",".join(neutron.HOSTS))
    engine = sa.create_engine(database)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE agents SET heartbeat_timestamp = :at"), {"at": now()})
    engine.dispose()
    return server


def _write_reports(engine: sa.Engine) -> None:
    """As hosts report new HA routers."""
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE router_l3_agents SET ha_state = 'standby' WHERE ha_state IS NULL AND ha_port_id IS NOT NULL"
            )
        )
    engine.dispose()


def _command(config: Path, *arguments: str) -> str:
    program = Path(sys.executable).with_name("neutrino")
    command: list[str | Path] = [program, "takeover", arguments[0], "--config-file", config, *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        output = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {output}")
    return done.stdout


def _go_on(theirs: Client, engine: sa.Engine) -> Iterator[str]:
    """Neutron's own writes beside what was exported: what it allocates is free, and exported objects can be changed."""
    network = next(one for one in theirs.get("networks")["networks"] if one["name"] == "new")
    taken = {fixed["ip_address"] for port in theirs.get("ports")["ports"] for fixed in port["fixed_ips"]}
    for number in range(5):
        port = theirs.make("ports", "port", network_id=network["id"], name=f"of-neutron-{number}")
        addresses = {fixed["ip_address"] for fixed in port["fixed_ips"]}
        if len(addresses) != 2 or addresses & taken:
            yield f"a port on the exported network got {addresses}, of which {addresses & taken} are taken"
        taken |= addresses
    theirs.make("networks", "network", name="of-neutron")
    external = next(one for one in theirs.get("networks")["networks"] if one["name"] == "public")
    floating = theirs.make("floatingips", "floatingip", floating_network_id=external["id"])
    if floating["floating_ip_address"] in taken:
        yield f"a floating IP got {floating['floating_ip_address']}, which is taken"
    bound = next(one for one in theirs.get("ports")["ports"] if one["name"] == "bound")
    theirs.put(f"ports/{bound['id']}", "port", name="renamed", binding__host_id="compute-2")
    theirs.make("routers", "router", name="ha-of-neutron", ha=True, distributed=False, project_id="0a" * 16)
    unbound = next(one for one in theirs.get("ports")["ports"] if one["name"] == "new-child")
    trunk = next(one for one in theirs.get("trunks")["trunks"] if one["name"] == "new")
    theirs.call("DELETE", f"trunks/{trunk['id']}")
    theirs.call("DELETE", f"ports/{unbound['id']}")
    with engine.connect() as connection:
        segments = connection.execute(sa.text(_SEGMENTS))
        rows = [tuple(row) for row in segments if row[2] is not None]
    if len(rows) != len(set(rows)):
        yield f"a segmentation id is used twice: {sorted(map(str, rows))}"


def _say(text: str) -> None:
    print(f"export_check: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
