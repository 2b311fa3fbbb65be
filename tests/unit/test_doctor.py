"""neutrino doctor: every kind of finding is provoked, a healthy machine has none, and docs/doctor.md lists them all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from neutrino.agent.runtime.role import Drift
from neutrino.cli.doctor import agent, checks, configuration, files, links, openvswitch, run, service, sriov, underlay
from neutrino.cli.doctor import host as host_checks
from neutrino.cli.doctor.command import as_json, render
from neutrino.cli.doctor.ovsdb_client import NotReachable, plain, select
from neutrino.cli.doctor.subject import HOST, SERVER, Subject, detect, subjects
from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.diagnosis import host_problems, machine_problems, server_problems
from neutrino.diagnosis.problems import NOTE, Finding, Problem, combine
from neutrino.feed.state import State
from neutrino.model.state import Host, Network, Port, Segment
from neutrino.server.config import configuration as server_configuration
from neutrino.server.config import database_url
from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.features import catalogue
from tests.support import doctor as support
from tests.support.doctor import FakeMachine, certificate
from tests.support.doctor_document import PAGE, render_page

UUID = "0123abcd-0000-4000-8000-000000000001"
ROUTER = "0123abcd-0000-4000-8000-000000000002"
Provoke = Callable[[Path, pytest.MonkeyPatch], Iterable[Finding]]


# --- parts ------------------------------------------------------------------------------------------------------------


def cached(subject: Subject, *objects: Any) -> Subject:
    """With these objects in the agent's cache."""
    state, names = State(), {Host: "host", Network: "network", Port: "port"}
    for each in objects:
        state._set(names[type(each)], each.id, each)
    subject.state_path.mkdir(exist_ok=True)
    (subject.state_path / "feed.json").write_bytes(state.dump())
    return subject


def peers(*addresses: str, mtu: int = 1450) -> list[Any]:
    segment = Segment(id=UUID, network_type="vxlan", segmentation_id=1)
    hosts = [
        Host(id=f"h{number}", tunneling_ip=each, tunnel_types=("vxlan",)) for number, each in enumerate(addresses, 2)
    ]
    return [*hosts, Network(id=UUID, mtu=mtu, segments=(segment,))]


def with_policy(path: Path, text: str) -> Iterable[Finding]:
    (path / "policy.yaml").write_text(text)
    return configuration.configuration(support.server(path))


def migrated(subject: Subject, *statements: sa.Executable | str) -> Subject:
    """With a database of this release, after these statements."""
    db = Database(database_url(server_configuration(subject.files)))
    schema.ensure(db)
    with db.engine().begin() as connection:
        for each in statements:
            connection.execute(sa.text(each) if isinstance(each, str) else each)
    db.close()
    return subject


@contextlib.contextmanager
def answering(path: Path, *answers: bytes) -> Iterator[None]:
    """A Unix socket that answers each connection with the next of these bytes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(30)


def of_feed(subject: Subject, answer: str, directory: Path) -> list[Finding]:
    with answering(directory / "feed.sock", answer.encode()):
        return list(agent.feed(subject))


def http(status: str, body: str = "", date: str = "Fri, 15 Jan 2027 08:00:00 GMT") -> str:
    return f"HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n\r\n{body}"


def switch(**tables: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of a healthy switch, except for what is given."""
    rows: dict[str, list[dict[str, Any]]] = {
        "Open_vSwitch": [{"ovs_version": "3.1.0", "datapath_types": ["netdev", "system"], "iface_types": ["vxlan"]}],
        "Bridge": [{"name": "br-int", "datapath_type": "system", "ports": ["p1"]}],
        "Controller": [],
        "Port": [{"_uuid": "p1", "name": "tap1", "interfaces": ["i1"]}],
        "Interface": [{"_uuid": "i1", "name": "tap1", "type": "internal", "ofport": 1, "external_ids": {}}],
    }
    return rows | tables


def of_switch(
    check: Callable[[Subject], Iterable[Finding]], patch: pytest.MonkeyPatch, subject: Subject, **tables: Any
) -> list[Finding]:
    patch.setattr(openvswitch, "select", lambda address, wanted, **_: switch(**tables))
    patch.setattr(openvswitch, "switch_error", lambda directory: "")
    return list(check(subject))


def tunnel(**more: Any) -> dict[str, Any]:
    row = {"_uuid": "i2", "name": "vxlan-c0000202", "type": "vxlan", "ofport": 2, "options": {"remote_ip": "192.0.2.2"}}
    return {**row, "external_ids": {}, "statistics": {}, **more}


def of_tunnel(patch: pytest.MonkeyPatch, directory: Path, *counters: dict[str, int]) -> list[Finding]:
    """Of a tunnel that has these counters, one after the other."""
    answers = iter(counters)
    patch.setattr(
        openvswitch,
        "select",
        lambda address, wanted, **_: switch(Interface=[tunnel(statistics={"rx_packets": 9, **next(answers)})]),
    )
    return list(openvswitch.tunnels(support.host(directory)))


def found_drift(patch: pytest.MonkeyPatch, directory: Path, found: list[Drift], synced: bool = True) -> list[Finding]:
    patch.setattr("neutrino.agent.main.find", lambda files, seconds: (found, synced))
    return list(agent.find_drift(support.host(directory)))


def with_machine(**changes: Any) -> FakeMachine:
    return replace(FakeMachine(), **changes)


def without(program: str) -> FakeMachine:
    machine = FakeMachine()
    del machine.installed[program]
    return machine


def sysctl(path: str, value: str) -> FakeMachine:
    machine = FakeMachine()
    machine.files[path] = value
    return machine


def with_certificate(directory: Path, begin: float, end: float) -> list[Finding]:
    path = certificate(directory / "server.pem", begin, end, FakeMachine().time)
    settings = {"feed": {"tls_cert_file": path, "tls_key_file": path}}
    return list(files.certificates(support.server(directory, settings)))


def failing(subject: Subject) -> Iterator[Finding]:
    raise LookupError("nothing here")
    yield


def hanging(subject: Subject) -> Iterator[Finding]:
    yield host_problems.DRIFT("found before it hung")
    time.sleep(60)


def of_run(function: str, seconds: float, directory: Path) -> Iterable[Finding]:
    check = checks.Check("broken", (HOST,), f"{__name__}:{function}", "nothing", seconds)
    return run.run(check, support.host(directory))


def of_other_user(directory: Path, patch: pytest.MonkeyPatch) -> list[run.Result]:
    """The results for an ordinary user, of a healthy server."""
    subject = migrated(support.server(directory))
    with patch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.stat(subject.state_path).st_uid + 4321)
        patched.setattr(os, "access", lambda *_: False)
        return run.run_all([subject], [each for each in checks.CHECKS if each.name != "listeners"])


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that all users reach: those of pytest are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def foreign_namespace(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    (directory / "netns" / f"qrouter-{ROUTER}").mkdir(parents=True)
    (directory / "netns" / "somebody-elses").mkdir()
    patch.setattr(agent, "NAMESPACES", str(directory / "netns"))
    return of_switch(agent.orphans, patch, cached(support.host(directory)))


def orphan_port(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    patch.setattr(agent, "NAMESPACES", str(directory / "none"))
    row = {**switch()["Interface"][0], "external_ids": {"iface-id": UUID}}
    return of_switch(agent.orphans, patch, cached(support.host(directory)), Interface=[row])


def two_allocations(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    """Two ports with one address on a network, as an overlapping subnet that was inserted by hand allows."""
    subject = migrated(support.server(directory))
    with contextlib.closing(sqlite3.connect(files.sqlite_file(subject.conf))) as connection:  # without foreign keys
        for subnet in ("s1", "s2"):
            values = (subnet, "10.0.0.5", f"port-{subnet}", "n1")
            connection.execute(
                "INSERT INTO ip_allocations (subnet_id, ip_address, port_id, network_id) VALUES (?,?,?,?)", values
            )
        connection.commit()
    return service.database(subject)


def read_only(path: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    """By the answer of SQLite to another question; the functional tests have databases that are."""
    patch.setitem(service.READ_ONLY, "sqlite", sa.text("SELECT 1"))
    return service.database(migrated(support.server(path)))


def file_read_only(path: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    """As for the server's user; root, as which tests may run, may write every file."""
    subject = migrated(support.server(path))
    with patch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        return list(service.database(subject))


def damaged(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    subject = migrated(support.server(directory))
    path = Path(files.sqlite_file(subject.conf))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'subnets'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size  # of one table: the schema's version can be read
    path.write_bytes(data)
    for extra in ("-wal", "-shm"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    return list(service.database(subject))


def untrusted(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    error = __import__("ssl").SSLCertVerificationError("refused")
    error.verify_message = "self-signed certificate"

    def refuse(*_: object) -> None:
        raise error

    patch.setattr(agent, "_upgrade", refuse)
    return list(agent.feed(support.host(directory, {"feed": {"server": "wss://server.example.org:9697"}})))


def service_problem(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    row = {"id": UUID, "agent_type": "Open vSwitch agent", "binary": "b", "topic": "t", "host": "h9", "created_at": ""}
    row |= {"started_at": "", "heartbeat_timestamp": "2020-01-01T00:00:00Z"}
    return service.service(migrated(support.server(directory), sa.insert(t.agents).values(row)))


def unknown_datapath(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    root = {"ovs_version": "3.1.0", "datapath_types": "netdev", "iface_types": []}
    return of_switch(openvswitch.openvswitch, patch, support.host(directory), Open_vSwitch=[root], Bridge=[])


def vswitchd_down(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    patch.setattr(openvswitch, "select", lambda address, wanted, **_: switch())
    return openvswitch.openvswitch(support.host(directory))


def neutron_agent(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        targets = [{"target": target} for target in (NO_CONTROLLER, f"tcp:127.0.0.1:{listener.getsockname()[1]}")]
        return of_switch(openvswitch.openvswitch, patch, support.host(directory), Controller=targets)


def low_mtu(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    machine = with_machine(path_mtu=lambda address: 1400 if address == "192.0.2.2" else 1500)
    return underlay.underlay(cached(support.host(directory, machine=machine), *peers("192.0.2.2", "192.0.2.3")))


def unreachable_peer(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    machine = with_machine(path_mtu=lambda address: 0)
    return underlay.underlay(cached(support.host(directory, machine=machine), *peers("192.0.2.2")))


def wrong_counter(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    counter = sa.insert(t.quota_usages).values(project_id="p", resource="network", used=7)
    return service.database(migrated(support.server(directory), counter))


def readable_secret(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    subject = support.host(directory)
    (directory / "credential").chmod(0o644)
    return files.files(subject)


def state_is_a_file(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    (directory / "agent").write_text("")
    return files.files(support.host(directory))


def damaged_cache(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    subject = cached(support.host(directory))
    (subject.state_path / "feed.json").write_text("{")
    return agent.agent(subject)


def keystone_gone(directory: Path, patch: pytest.MonkeyPatch) -> Iterable[Finding]:
    settings = {"DEFAULT": {"auth_strategy": "keystone"}, "keystone_authtoken": {"auth_url": "http://127.0.0.1:1/v3"}}
    return service.keystone(support.server(directory, settings))


HYBRID = {"securitygroup": {"firewall_driver": "iptables_hybrid"}}
MAPPED = {"ovs": {"bridge_mappings": "physnet1:br-ex"}}
CARD = {"DEFAULT": {"roles": "sriov"}, "sriov_nic": {"physical_device_mappings": "physnet1:ens1"}}
NETDEV_BRIDGE = [{"name": "br-int", "datapath_type": "netdev", "ports": []}]
BROKEN_PORT = [{**switch()["Interface"][0], "error": "could not open network device tap1", "ofport": -1}]

PROVOKED: dict[Problem, Provoke] = {
    machine_problems.CHECK_FAILED: lambda path, patch: of_run("failing", 5, path),
    machine_problems.CHECK_TIMED_OUT: lambda path, patch: of_run("hanging", 0.3, path),
    machine_problems.OTHER_USER: lambda path, patch: of_other_user(path, patch)[1].findings,
    machine_problems.CONFIGURATION_INVALID: lambda path, patch: configuration.configuration(
        support.host(path, {"agent": {"report_interval": "soon"}})
    ),
    machine_problems.OPTION_UNKNOWN: lambda path, patch: configuration.configuration(
        support.host(path, {"ovs": {"lokal_ip": "x"}})
    ),
    machine_problems.OPTION_WITHOUT_EFFECT: lambda path, patch: configuration.configuration(
        support.host(path, {"DEFAULT": {"rpc_response_timeout": 60}})
    ),
    machine_problems.OPTIONS_CONTRADICT: lambda path, patch: configuration.configuration(
        support.host(path, {"agent": {"arp_responder": True, "l2_population": False}})
    ),
    machine_problems.POLICY_INVALID: lambda path, patch: with_policy(path, '"get_network": "role:reader'),
    machine_problems.POLICY_WITHOUT_EFFECT: lambda path, patch: with_policy(path, '"get_netwrok": "role:reader"'),
    machine_problems.FILE_UNREADABLE: lambda path, patch: files.files(
        support.host(path, {"feed": {"credential_file": path / "none"}})
    ),
    machine_problems.SECRET_READABLE: readable_secret,
    machine_problems.STATE_UNUSABLE: state_is_a_file,
    machine_problems.DISK_FULL: lambda path, patch: files.disk(
        support.host(path, machine=with_machine(space=(100 * 2**30, 2**20)))
    ),
    machine_problems.DISK_LOW: lambda path, patch: files.disk(
        support.server(path, machine=with_machine(space=(2**30, 30 * 2**20)))
    ),
    machine_problems.CERTIFICATE_UNUSABLE: lambda path, patch: files.certificates(
        support.host(path, {"feed": {"ca_file": path / "none.pem"}})
    ),
    machine_problems.CERTIFICATE_EXPIRED: lambda path, patch: with_certificate(path, -10, -1),
    machine_problems.CERTIFICATE_EXPIRES: lambda path, patch: with_certificate(path, -10, 29),
    machine_problems.CERTIFICATE_EARLY: lambda path, patch: with_certificate(path, 1, 90),
    server_problems.DATABASE_UNREACHABLE: lambda path, patch: service.database(
        support.server(path, {"database": {"connection": "mysql+pymysql://n:secret@127.0.0.1:1/n"}})
    ),
    server_problems.DATABASE_MISSING: lambda path, patch: service.database(support.server(path)),
    server_problems.DATABASE_FILE_READ_ONLY: file_read_only,
    server_problems.SCHEMA_OLD: lambda path, patch: service.database(
        migrated(support.server(path), "UPDATE alembic_version SET version_num = '0001'")
    ),
    server_problems.SCHEMA_NEW: lambda path, patch: service.database(
        migrated(support.server(path), "UPDATE alembic_version SET version_num = '9999'")
    ),
    server_problems.DATABASE_READ_ONLY: read_only,
    server_problems.DATABASE_DAMAGED: damaged,
    server_problems.QUOTA_WRONG: wrong_counter,
    server_problems.ADDRESS_DUPLICATE: two_allocations,
    server_problems.CLOCK_DATABASE: lambda path, patch: service.clock_finding(-60.0),
    server_problems.SERVICE_PROBLEM: service_problem,
    server_problems.API_SILENT: lambda path, patch: service.listeners(support.server(path)),
    server_problems.FEED_SILENT: lambda path, patch: service.listeners(support.server(path)),
    server_problems.KEYSTONE_UNREACHABLE: keystone_gone,
    host_problems.PRIVILEGES: lambda path, patch: host_checks.privileges(
        support.host(path, machine=sysctl("/proc/self/status", "CapEff:\t0000000000000000\n"))
    ),
    host_problems.PROGRAM_MISSING: lambda path, patch: host_checks.programs(
        support.host(path, machine=without("dnsmasq"))
    ),
    host_problems.PROGRAM_OPTIONAL: lambda path, patch: host_checks.programs(
        support.host(path, machine=without("keepalived"))
    ),
    host_problems.PROGRAM_OLD: lambda path, patch: host_checks.programs(
        support.host(
            path, machine=with_machine(installed={**FakeMachine().installed, "dnsmasq": "Dnsmasq version 2.76"})
        )
    ),
    host_problems.KERNEL_MODULE: lambda path, patch: host_checks.kernel(
        support.host(path, machine=with_machine(modules={"openvswitch", "nf_conntrack"}))
    ),
    host_problems.NFTABLES_UNUSABLE: lambda path, patch: host_checks.kernel(
        support.host(path, machine=with_machine(failing={"nft": "Operation not supported"}))
    ),
    host_problems.IPV6_OFF: lambda path, patch: host_checks.kernel(
        support.host(path, machine=sysctl("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))
    ),
    host_problems.BRIDGE_NETFILTER: lambda path, patch: host_checks.kernel(
        support.host(path, HYBRID, sysctl("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"))
    ),
    host_problems.CONNTRACK_FULL: lambda path, patch: host_checks.kernel(
        support.host(path, machine=sysctl("/proc/sys/net/netfilter/nf_conntrack_count", "950"))
    ),
    host_problems.OVSDB_UNREACHABLE: lambda path, patch: openvswitch.openvswitch(support.host(path)),
    host_problems.VSWITCHD_DOWN: vswitchd_down,
    host_problems.OVS_OLD: lambda path, patch: of_switch(
        openvswitch.openvswitch, patch, support.host(path), Open_vSwitch=[{"ovs_version": "2.9.2"}]
    ),
    host_problems.DATAPATH_MISSING: unknown_datapath,
    host_problems.DATAPATH_DIFFERS: lambda path, patch: of_switch(
        openvswitch.openvswitch, patch, support.host(path), Bridge=NETDEV_BRIDGE
    ),
    host_problems.BRIDGE_MISSING: lambda path, patch: of_switch(
        openvswitch.openvswitch, patch, support.host(path, MAPPED)
    ),
    host_problems.INTERFACE_ERROR: lambda path, patch: of_switch(
        openvswitch.openvswitch, patch, support.host(path), Interface=BROKEN_PORT
    ),
    host_problems.CHECKSUM_OFFLOAD: lambda path, patch: of_switch(
        openvswitch.openvswitch,
        patch,
        support.host(path, {"ovs": {"datapath_type": "netdev"}}, sysctl("/sys/class/net/tap1/tun_flags", "0x5102\n")),
        Bridge=NETDEV_BRIDGE,
        Interface=[{**switch()["Interface"][0], "type": "", "external_ids": {"iface-id": "p1"}}],
    ),
    host_problems.NEUTRON_AGENT_RUNS: neutron_agent,
    host_problems.LINK_DOWN: lambda path, patch: of_switch(
        links.links, patch, support.host(path, machine=with_machine(flags={"eth0": ("UP", "NO-CARRIER")}))
    ),
    host_problems.LOCAL_IP_MISSING: lambda path, patch: underlay.underlay(
        support.host(path, machine=with_machine(addresses=("127.0.0.1",)))
    ),
    host_problems.TUNNEL_ADDRESS_DUPLICATE: lambda path, patch: underlay.underlay(
        cached(support.host(path), *peers("192.0.2.1"))
    ),
    host_problems.PEER_UNREACHABLE: unreachable_peer,
    host_problems.UNDERLAY_MTU: low_mtu,
    host_problems.MTU_UNKNOWN: lambda path, patch: underlay.underlay(
        cached(support.host(path, machine=without("ping")), *peers("192.0.2.2"))
    ),
    host_problems.TUNNEL_ERROR: lambda path, patch: of_switch(
        openvswitch.tunnels, patch, support.host(path), Interface=[tunnel(error="Address already in use")]
    ),
    host_problems.TUNNEL_ONE_WAY: lambda path, patch: of_switch(
        openvswitch.tunnels,
        patch,
        support.host(path),
        Interface=[tunnel(statistics={"tx_packets": 500, "rx_packets": 0})],
    ),
    host_problems.TUNNEL_DROPS: lambda path, patch: of_tunnel(
        patch, path, {"tx_packets": 500, "tx_errors": 3}, {"tx_packets": 510, "tx_errors": 4}
    ),
    host_problems.FEED_UNREACHABLE: lambda path, patch: agent.feed(support.host(path)),
    host_problems.FEED_UNTRUSTED: untrusted,
    host_problems.FEED_REFUSED: lambda path, patch: of_feed(
        support.host(path), http("401 Unauthorized", "no such host"), path
    ),
    host_problems.CLOCK_SERVER: lambda path, patch: of_feed(
        support.host(path), http("401 Unauthorized", date="Fri, 15 Jan 2027 08:01:00 GMT"), path
    ),
    host_problems.AGENT_DOWN: lambda path, patch: agent.agent(cached(support.host(path))),
    host_problems.NEVER_SYNCED: lambda path, patch: agent.agent(support.host(path)),
    host_problems.CACHE_DAMAGED: damaged_cache,
    host_problems.DRIFT: lambda path, patch: found_drift(patch, path, [Drift("l2", "add flow 1\nadd flow 2\n")]),
    host_problems.NOT_APPLIED: lambda path, patch: found_drift(
        patch, path, [Drift("l3", "", {"router x": "no such device"})]
    ),
    host_problems.AGENT_HELD: lambda path, patch: found_drift(
        patch, path, [Drift("start", "", {"foreign_flows": "br-int has 21. To proceed: [agent] start_despite"})]
    ),
    host_problems.SRIOV_CARD_FAULTY: lambda path, patch: sriov.cards(support.host(path, CARD)),
    host_problems.SRIOV_CARD_WITHOUT_FUNCTIONS: lambda path, patch: sriov.cards(
        support.host(path, CARD, FakeMachine(files={"/sys/class/net/ens1/ifindex": "2\n"}))
    ),
    host_problems.DRIFT_UNKNOWN: lambda path, patch: found_drift(patch, path, [], synced=False),
    host_problems.ORPHAN_NAMESPACE: foreign_namespace,
    host_problems.ORPHAN_PORT: orphan_port,
}


# --- the problems -------------------------------------------------------------------------------------------------------


BY_THE_SERVER = {  # from its database: test_status_document.py provokes them
    *(server_problems.SCHEMA_DIFFERS, server_problems.DATABASE_SLOW, server_problems.PROCESS_SILENT),
    *(server_problems.FEED_STOPPED, server_problems.RELEASES_DIFFER, host_problems.HOST_DOWN, host_problems.LAG),
    *(host_problems.DATAPLANE_DOWN, host_problems.HOST_TIMEOUT, host_problems.DAEMON_RESPAWNED),
    *(host_problems.HOST_DISCONNECTED, host_problems.HOST_REFUSED, host_problems.UNKNOWN_HOST),
    *(host_problems.FOREIGN_RULES, host_problems.BGP_SESSION_DOWN, host_problems.SRIOV_PORT_INCOMPLETE),
    host_problems.CONNTRACKD_DIFFERS,
    *(host_problems.VRRP_INTERVALS_DIFFER, server_problems.DRIVER_NOT_READY),
}


def test_every_problem_of_a_machine_is_provoked_by_a_test() -> None:
    known = {*machine_problems.PROBLEMS, *server_problems.PROBLEMS, *host_problems.PROBLEMS}
    assert known - set(PROVOKED) == BY_THE_SERVER


@pytest.mark.parametrize("problem", PROVOKED, ids=lambda problem: problem.id)
def test_a_finding_of_each_problem(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [each for each in PROVOKED[problem](tmp_path, monkeypatch) if each.kind == problem.id]
    assert found, f"nothing of kind {problem.id}"
    for each in found:
        assert each.what
        assert "\n" not in each.what
        assert ":secret" not in each.what, "a password"
        assert each.meaning.endswith(".")
        assert each.fix
        assert "{" not in each.fix


UPLINKS = {
    "Bridge": [
        {"name": "br-tun-ip", "datapath_type": "netdev", "ports": ["p1", "p2", "p3"]},
        {"name": "br-ex", "datapath_type": "netdev", "ports": ["p4", "p5"]},
    ],
    "Port": [{"_uuid": f"p{n}", "name": f"x{n}", "interfaces": [f"i{n}"]} for n in range(1, 6)],
    "Interface": [
        {"_uuid": "i1", "name": "br-tun-ip", "type": "internal", "external_ids": {}},
        {"_uuid": "i2", "name": "bond-a", "type": "", "external_ids": {}},
        {"_uuid": "i3", "name": "tap1", "type": "", "external_ids": {"iface-id": UUID}},
        {"_uuid": "i4", "name": "phy-br-ex", "type": "patch", "external_ids": {}},
        {"_uuid": "i5", "name": "eth5", "type": "system", "external_ids": {}},
    ],
}


def test_links_are_those_of_the_bridges_and_a_down_one_is_not_a_firewall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tunnel address is on a bridge: its uplinks count, not the bridge's own device, nor an instance's."""
    flags = {"br-tun-ip": ("UP",), "bond-a": ("BROADCAST",), "tap1": (), "eth5": ("UP", "NO-CARRIER")}
    machine = with_machine(flags=flags, path_mtu=lambda address: 0)
    subject = cached(support.host(tmp_path, MAPPED, machine), *peers("192.0.2.2"))
    found = of_switch(links.links, monkeypatch, subject, **UPLINKS)
    assert [finding.what for finding in found] == [
        "the link of bond-a (underlay) is down: disabled",
        "the link of eth5 (physical network physnet1) is down: no carrier",
    ]
    assert of_switch(underlay.underlay, monkeypatch, subject, **UPLINKS) == [], "no advice on routes and firewalls"
    assert not any(command[0] == "ping" for command in machine.ran)
    flags["bond-a"] = ("UP", "LOWER_UP")
    (peer,) = of_switch(underlay.underlay, monkeypatch, subject, **UPLINKS)
    assert peer.kind == "peer-unreachable"


@pytest.mark.parametrize(
    ("is_there", "text"),
    [(True, "'ngs' cannot be loaded: ModuleNotFoundError"), (False, "needs neutron-lib: pip install")],
    ids=["driver absent", "neutron-lib absent"],
)
def test_a_driver_for_neutron_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, text: str
) -> None:
    info = tmp_path / "site" / "ngs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ngs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[neutron.ml2.mechanism_drivers]\nngs = absent.driver:Driver\n")
    monkeypatch.syspath_prepend(str(info.parent))
    if not is_there:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (found,) = configuration.configuration(support.server(tmp_path, {"ml2": {"mechanism_drivers": "ngs"}}))
    assert found.kind == "configuration-invalid"
    assert text in found.what


def test_a_server_of_another_machine_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent does not start, and this command does not send the credential in clear."""
    subject = support.host(tmp_path, {"feed": {"server": "ws://server.example.org:9697"}})
    (found,) = configuration.configuration(subject)
    assert found.kind == "configuration-invalid"
    assert "ws://server.example.org:9697 is another machine, and without TLS: use wss://" in found.what
    monkeypatch.setattr(agent, "_upgrade", lambda *_: pytest.fail("the credential was sent"))
    assert [each.kind for each in agent.feed(subject)] == ["configuration-invalid"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('connection failed: FATAL:  database "neutrino" does not exist', "database-missing"),
        ("(1049, \"Unknown database 'neutrino'\")", "database-missing"),
        ('connection failed: FATAL:  role "neutrino" does not exist', "database-unreachable"),
        ("connection refused", "database-unreachable"),
    ],
)
def test_a_database_that_does_not_exist_is_created_and_not_started(
    text: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(db: Database) -> str:
        raise sa.exc.OperationalError("SELECT 1", {}, Exception(text))

    monkeypatch.setattr(schema, "version", fail)
    subject = support.server(tmp_path, {"database": {"connection": "postgresql://n:secret@127.0.0.1:1/neutrino"}})
    (found,) = service.database(subject)
    assert found.kind == kind


def test_a_file_in_a_directory_that_the_server_may_not_write(open_directory: Path) -> None:
    """SQLite creates files beside its database."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the server is another user")
    subject = migrated(support.server(open_directory))
    nobody = pwd.getpwnam("nobody")
    path = Path(files.sqlite_file(subject.conf))
    for each in (subject.state_path, path):
        os.chown(each, nobody.pw_uid, nobody.pw_gid)
    assert not [each for each in service.database(subject) if each.kind == "database-file-read-only"]
    os.chown(path, 0, 0)
    path.chmod(0o644)
    found = [each for each in service.database(subject) if each.kind == "database-file-read-only"]
    assert [each.what for each in found] == [f"the database {path} cannot be written: user nobody may not write {path}"]
    assert "write access" in found[0].fix


def test_the_document_has_every_problem() -> None:
    assert PAGE.read_text() == render_page(), "run python -m tests.support.doctor_document"


def test_meanings_are_sentences() -> None:
    for problem in catalogue().values():
        assert problem.meaning[0].isupper(), problem.id
        assert problem.meaning.endswith("."), problem.id


def test_a_problem_is_declared_once() -> None:
    area = (Problem("a", "A.", "Fix a."), Problem("b", "B.", "Fix b."))
    assert list(combine(area, [Problem("c", "C.", "Fix c.")])) == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"twice: b$"):
        combine(area, [Problem("b", "Another.", "Fix it.")])


# --- a healthy machine ------------------------------------------------------------------------------------------------


def test_a_healthy_host_has_no_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "NAMESPACES", str(tmp_path / "none"))
    monkeypatch.setattr(openvswitch, "select", lambda address, wanted, **_: switch(Interface=[tunnel(ofport=3)]))
    monkeypatch.setattr(openvswitch, "switch_error", lambda directory: "")
    monkeypatch.setattr("neutrino.agent.main.find", lambda files, seconds: ([Drift("l2")], True))
    subject = cached(support.host(tmp_path), *peers("192.0.2.2", "192.0.2.3"))
    lock = os.open(subject.state_path / "agent.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with answering(tmp_path / "feed.sock", http("101 Switching Protocols").encode()):
            results = run.run_all([subject], checks.CHECKS)
    finally:
        os.close(lock)
    assert [each for result in results for each in result.findings] == []
    assert [result.check for result in results] == [each.name for each in checks.CHECKS if HOST in each.applies_to]


def test_a_healthy_server_lacks_its_listeners_only(tmp_path: Path) -> None:
    """The listeners of a real server are tested with a real server."""
    subject = migrated(support.server(tmp_path))
    results = run.run_all([subject], checks.CHECKS)
    kinds_found = {each.kind for result in results for each in result.findings}
    assert kinds_found == {server_problems.API_SILENT.id, server_problems.FEED_SILENT.id}


def test_doctor_creates_nothing(tmp_path: Path) -> None:
    results = run.run_all([support.server(tmp_path)], checks.CHECKS)
    assert "database-missing" in {each.kind for result in results for each in result.findings}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["server.conf"]


# --- the runner and its output ----------------------------------------------------------------------------------------


def test_an_invalid_configuration_stops_the_other_checks(tmp_path: Path) -> None:
    results = run.run_all([support.host(tmp_path, {"agent": {"report_interval": "soon"}})], checks.CHECKS)
    assert [each.kind for each in results[0].findings] == ["configuration-invalid"]
    assert all(result.skipped for result in results[1:])
    assert "underlay was not checked: the configuration is invalid" in "\n".join(render(results, 100))


@pytest.mark.parametrize(
    "text", ['"get_network": "role:reader', '"get_network": "role:reader and"', '"get_network": "rule:undefined"']
)
def test_findings_of_the_policy_name_its_file(tmp_path: Path, text: str) -> None:
    (found,) = [each for each in with_policy(tmp_path, text) if each.kind.startswith("policy-")]
    assert str(tmp_path / "policy.yaml") in found.what
    assert found.severity == ("warning" if "undefined" in text else "error")
    assert text.endswith("reader") or "get_network" in found.what


def test_a_check_that_hangs_keeps_what_it_found(tmp_path: Path) -> None:
    before = time.monotonic()
    found = list(of_run("hanging", 0.2, tmp_path))
    assert time.monotonic() - before < 30  # the check would take 60
    assert [each.kind for each in found] == ["drift", "check-timed-out"]


def test_the_output_names_meaning_and_fix(tmp_path: Path) -> None:
    results = [run.Result(HOST, "programs", tuple(PROVOKED[host_problems.PROGRAM_MISSING](tmp_path, None)))]  # type: ignore[arg-type]
    lines = render(results, 100)
    assert lines[0] == "ERROR dnsmasq is not installed"
    assert lines[2] == "  Fix: apt-get install dnsmasq-base  [programs]"
    assert lines[-1] == "1 checks of this host: 1 errors"
    (found,) = json.loads(as_json(results))["findings"]
    assert (found["subject"], found["check"], found["kind"]) == ("host", "programs", "program-missing")


def test_notes_are_no_findings() -> None:
    assert render([run.Result(HOST, "x", (host_problems.ORPHAN_PORT("port", name="tap1"),))], 80)[-1].endswith(
        "no findings, 1 notes"
    )
    assert host_problems.ORPHAN_PORT.severity == NOTE


# --- what is examined -------------------------------------------------------------------------------------------------


def test_files_are_a_servers_or_an_agents(tmp_path: Path) -> None:
    assert detect(support.server(tmp_path).files) == [SERVER]
    assert detect(support.host(tmp_path).files) == [HOST]
    both = tmp_path / "both.conf"
    both.write_text("[feed]\nserver = unix:/run/feed.sock\n[database]\nconnection = sqlite:////none\n")
    assert detect([str(both)]) == [SERVER, HOST]
    assert [each.role for each in subjects([str(both)], HOST)] == [HOST]
    (tmp_path / "broken.conf").write_text("no section\n")
    assert detect([str(tmp_path / "broken.conf")]) == [SERVER]


def test_without_files_the_packages_files_are_examined(tmp_path: Path) -> None:
    paths = (str(tmp_path / "server.conf"), str(tmp_path / "agent.conf"))
    assert subjects([], "", paths) == []
    support.host(tmp_path)
    assert [(each.role, each.files) for each in subjects([], "", paths)] == [(HOST, (paths[1],))]
    support.server(tmp_path)
    assert [each.role for each in subjects([], "", paths)] == [SERVER, HOST]
    assert [each.role for each in subjects([], SERVER, paths)] == [SERVER]


# --- details ----------------------------------------------------------------------------------------------------------


def test_the_measured_mtu_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = low_mtu(tmp_path, monkeypatch)
    assert found.what == "host h2 at 192.0.2.2: packets of 1400 bytes pass, and its tunnelled networks need 1500"
    assert "1500" in found.fix


def test_the_needed_mtu_depends_on_type_and_ip_version() -> None:
    networks = [Network(id="n", mtu=1442, segments=(Segment(id="s", network_type="geneve", segmentation_id=1),))]
    assert underlay.needed_mtu(networks, 4) == 1492
    assert underlay.needed_mtu(networks, 6) == 1512
    assert underlay.needed_mtu([Network(id="n", segments=(Segment(id="s", network_type="vlan"),))], 4) == 0


def test_the_spelling_of_the_tunnel_address_does_not_matter(tmp_path: Path) -> None:
    subject = support.host(
        tmp_path, {"ovs": {"local_ip": "2001:DB8:0:0::1"}}, with_machine(addresses=("127.0.0.1", "2001:db8::1"))
    )
    assert list(underlay.underlay(cached(subject))) == []


@pytest.mark.parametrize("counter", ["tx_errors", "tx_dropped"])
def test_transmit_errors_of_long_ago_are_no_finding(
    counter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"tx_packets": 500, counter: 30}
    assert of_tunnel(monkeypatch, tmp_path, before, {"tx_packets": 900, counter: 30}) == []
    (found,) = of_tunnel(monkeypatch, tmp_path, before, {"tx_packets": 900, counter: 37})
    assert found.what.endswith("at 192.0.2.2: 7 packets could not be sent within 6 s")
    (found,) = of_tunnel(monkeypatch, tmp_path, {"tx_packets": 2, counter: 30}, {"tx_packets": 2, counter: 30})
    assert found.what.endswith("30 packets could not be sent, 2 were")
    assert of_tunnel(monkeypatch, tmp_path, {"tx_packets": 500}) == [], "no second look without a loss"


def test_ping_goes_to_our_own_hosts_only(tmp_path: Path) -> None:
    machine = FakeMachine()
    list(underlay.underlay(cached(support.host(tmp_path, machine=machine), *peers("192.0.2.2", "2001:db8::1"))))
    assert {command[-1] for command in machine.ran if command[0] == "ping"} == {"192.0.2.2"}


def test_an_ovsdb_answer_in_pieces(tmp_path: Path) -> None:
    rows = [{"name": "br-int", "ports": ["set", []], "options": ["map", [["key", "5"]]]}]
    answer = msgspec.json.encode({"id": 0, "error": None, "result": [{"rows": rows}]})
    with answering(tmp_path / "db.sock", answer):
        found = select(f"unix:{tmp_path}/db.sock", {"Bridge": ("name", "ports", "options")})
    assert found == {"Bridge": [{"name": "br-int", "ports": None, "options": {"key": "5"}}]}
    assert plain(["set", [["uuid", "a"], ["uuid", "b"]]]) == ["a", "b"]
    (tmp_path / "db.sock").unlink()
    refusal = b'{"id":0,"error":null,"result":[{"error":"unknown table"}]}'
    with answering(tmp_path / "db.sock", refusal), pytest.raises(NotReachable, match="unknown table"):
        select(f"unix:{tmp_path}/db.sock", {"Bridge": ("name",)})
    with pytest.raises(NotReachable, match="neither unix"):
        select("ptcp:6640:127.0.0.1", {})


@pytest.mark.parametrize("text,expected", [("Dnsmasq version 2.90", "2.90"), ("v1.0.6 (x 9.9)", "1.0.6"), ("none", "")])
def test_versions(text: str, expected: str) -> None:
    assert host_checks.version(text) == expected


def test_a_card_with_and_without_functions(tmp_path: Path) -> None:
    there = {"/sys/class/net/ens1/ifindex": "2\n"}
    for number, kinds in (("0\n", ["sriov-card-without-vfs"]), ("4\n", [])):
        machine = FakeMachine(files={**there, "/sys/class/net/ens1/device/sriov_numvfs": number})
        assert [each.kind for each in sriov.cards(support.host(tmp_path, CARD, machine))] == kinds
    assert list(sriov.cards(support.host(tmp_path))) == []


def test_the_configured_bgpd_is_looked_for(tmp_path: Path) -> None:
    settings = {"DEFAULT": {"roles": "l2,bgp"}, "bgp": {"bgpd": "/opt/frr/bgpd"}}
    found = list(host_checks.programs(support.host(tmp_path, settings, with_machine())))
    assert ["/opt/frr/bgpd is not installed" in each.what for each in found].count(True) == 1
    installed = {**FakeMachine().installed, "/opt/frr/bgpd": "", "vtysh": ""}
    assert list(host_checks.programs(support.host(tmp_path, settings, with_machine(installed=installed)))) == []


def test_contradictions_of_a_server(tmp_path: Path) -> None:
    settings = {
        "DEFAULT": {"global_physnet_mtu": 1500},
        "ssl": {"cert_file": "/none"},
        "feed": {"heartbeat": 30, "heartbeat_timeout": 5, "tls_key_file": "/none"},
        "ml2": {"path_mtu": 9000, "project_network_types": "vxlan,gre", "type_drivers": "vxlan"},
        "keystone_authtoken": {"auth_url": "http://127.0.0.1"},
    }
    found = "\n".join(configuration.server_contradictions(support.server(tmp_path, settings).conf))
    for text in (
        "use_ssl is off",
        "tls_key_file",
        "heartbeat_timeout",
        "has gre",
        "path_mtu",
        "tokens are not checked",
    ):
        assert text in found


def test_contradictions_of_an_agent(tmp_path: Path) -> None:
    settings = {
        "DEFAULT": {"agent_mode": "dvr"},
        "agent": {"dscp": 10, "dscp_inherit": True, "tunnel_types": "", "enable_distributed_routing": False},
    }
    found = "\n".join(configuration.agent_contradictions(support.host(tmp_path, settings).conf))
    for text in ("overrides dscp", "agent_mode = dvr needs", "no tunnels are created"):
        assert text in found


def test_a_password_in_a_readable_configuration_file(tmp_path: Path) -> None:
    settings = {"database": {"connection": "postgresql+psycopg://n:secret@127.0.0.1/n"}}
    subject = support.server(tmp_path, settings)
    assert list(files.files(subject)) == []
    Path(subject.files[0]).chmod(0o644)
    (found,) = files.files(subject)
    assert found.kind == "secret-readable"
    assert found.fix == f"chmod o-rwx {subject.files[0]}"


def test_an_ordinary_user_gets_one_clear_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = of_other_user(tmp_path, monkeypatch)
    (found,) = [each for result in results for each in result.findings]
    assert found.kind == "other-user"
    assert f"state_path = {tmp_path / 'server'} belongs to user " in found.what
    assert [each.check for each in results if each.skipped] == ["files", "certificates", "database", "service"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_root_judges_files_as_the_servers_user(open_directory: Path) -> None:
    nobody = 65534
    key = certificate(open_directory / "feed.pem", -10, 90, FakeMachine().time)
    subject = support.server(open_directory, {"feed": {"tls_cert_file": key, "tls_key_file": key}})
    subject.state_path.mkdir(0o711)
    os.chown(subject.state_path, nobody, nobody)
    name = pwd.getpwuid(nobody).pw_name
    assert [each.what for each in files.files(subject)] == [
        f"[feed] tls_key_file = {key}: user {name} cannot read it",
    ]
    assert [each.what for each in files.certificates(subject)] == [
        f"[feed] tls_cert_file = {key}: user {name} cannot read it"
    ]
    os.chown(key, 0, nobody)
    key.chmod(0o640)
    assert [*files.files(subject), *files.certificates(subject)] == []
    subject.state_path.chmod(0o500)
    (found,) = files.files(subject)
    assert found.what == f"state_path = {subject.state_path} cannot be used by its owner, user {name}"
    os.chown(subject.state_path, 0, 0)
    key.chmod(0o600)
    assert list(files.files(subject)) == [], "a server that runs as root"


def test_the_certificate_that_the_feed_presents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for until, expected in (("Jan 30 08:00:00 2027 GMT", ["certificate-expires"]), ("Mar 30 08:00:00 2027 GMT", [])):
        answer = agent.AgentAnswer(101, "", "Fri, 15 Jan 2027 08:00:00 GMT", until)
        monkeypatch.setattr(agent, "_upgrade", lambda *_, answer=answer: answer)
        found = list(agent.feed(support.host(tmp_path, {"feed": {"server": "wss://server.example.org:9697"}})))
        assert [each.kind for each in found] == expected
