"""neutrino doctor and neutrino status in a lab: a healthy one has no findings, and real faults are named."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import host_command, run
from neutrino.lab.settings import FABRIC, UNDERLAY
from tests.support.commands import Done, run_neutrino
from tests.support.lab import network, open_group
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.routing_lab import wait_until_no_drift

Finding = dict[str, Any]


@pytest.fixture
def site(lab: Lab) -> Iterator[Lab]:
    """Two instances on a tunnelled network, each on a host of its own, so that the hosts are peers."""
    blue, group = network(lab, "blue"), open_group(lab)
    lab.vm("a", network=blue["id"], host="h1", security_groups=[group])
    lab.vm("b", network=blue["id"], host="h2", security_groups=[group])

    def is_peer() -> bool:
        cache = lab.paths.host("h1") / "feed.json"
        return cache.exists() and '"h2"' in cache.read_text()

    wait_until(is_peer, 30, "h1 does not know h2")
    for host in ("h1", "h2"):  # what an agent has not applied yet would be drift
        wait_until_no_drift(lab, host)
    with cleaned(lab):
        yield lab


def doctor(lab: Lab, host: str, *arguments: str) -> tuple[int, list[Finding]]:
    files = [word for path in lab.agent_config_files(host) for word in ("--config-file", str(path))]
    words = ["doctor", "--json", *files, *arguments]
    done = run_neutrino(words, environment=lab.processes.environment(), inside=lab.holder(host))
    assert "Traceback" not in done.error
    assert done.status in (0, 1), done.error
    return done.status, json.loads(done.out)["findings"]


def kinds(findings: list[Finding]) -> set[str]:
    return {each["kind"] for each in findings}


def status(lab: Lab, *arguments: str) -> Done:
    return run_neutrino(["status", "--endpoint", lab.settings.url, *arguments])


def test_a_healthy_lab(site: Lab) -> None:
    code, findings = doctor(site, "h1")
    assert (code, findings) == (0, [])
    files = ["--config-file", str(site.paths.server / "neutrino.conf")]
    done = run_neutrino(["doctor", *files])
    assert (done.status, done.out.splitlines()[-1]) == (0, "8 checks of this server: no findings")
    # Agents report the dataplane and the server its processes a moment later.
    wait_until(lambda: status(site).status == 0, 60, "the status shows a problem")
    shown = status(site)
    assert shown.status == 0, shown.out
    assert shown.out.startswith("OK: no problems; 3 of 3 hosts alive")
    found = json.loads(status(site, "--json").out)
    assert found["ports"]["by_status"] == {"ACTIVE": 2}
    assert {host["name"] for host in found["hosts"]} == {"h1", "h2", "h3"}
    assert {agent["dataplane"] for host in found["hosts"] for agent in host["agents"]} == {"up"}


def test_an_underlay_with_a_small_mtu(site: Lab) -> None:
    """The bridge between the hosts drops large packets without an answer, as a switch with a small MTU does."""
    with small_mtu(site, 1300):
        _, findings = doctor(site, "h1", "--only", "underlay")
        (found,) = findings
        assert found["kind"] == "underlay-mtu-low"
        # The kernel's bridge leaves four bytes more, for a VLAN header.
        assert re.search(r"packets of 130[0-4] bytes pass, and its tunnelled networks need 1500", found["what"])
        assert "1500" in found["fix"]
    assert doctor(site, "h1", "--only", "underlay") == (0, [])


@contextlib.contextmanager
def small_mtu(lab: Lab, mtu: int) -> Iterator[None]:
    """The fabric's port of h2 carries packets up to this size."""

    def set_mtu(size: int) -> None:
        run(host_command(lab.holder(FABRIC), ["ip", "link", "set", f"h2-{UNDERLAY}", "mtu", str(size)]))

    set_mtu(mtu)
    try:
        yield
    finally:
        set_mtu(lab.settings.mtu)


def test_a_host_that_does_not_answer(site: Lab) -> None:
    site.run("h2", ["ip", "address", "flush", "dev", "br-underlay"])
    try:
        _, findings = doctor(site, "h1", "--only", "underlay")
        assert kinds(findings) == {"peer-unreachable"}
        _, findings = doctor(site, "h2", "--only", "underlay")
        assert kinds(findings) == {"local-ip-missing"}
    finally:
        site.stop_ovs("h2")
        site.start_ovs("h2")


def test_a_deleted_flow_is_drift(site: Lab) -> None:
    site.stop_agent("h1")  # a running agent would repair it
    site.run("h1", ["ovs-ofctl", "del-flows", "br-int", "table=0"])
    code, findings = doctor(site, "h1", "--only", "drift,agent")
    assert code == 1
    assert kinds(findings) == {"agent-not-running", "drift"}
    found = next(each for each in findings if each["kind"] == "drift")
    assert found["what"].startswith("role l2: ")
    site.start_agent("h1")
    wait_until(lambda: doctor(site, "h1", "--only", "drift,agent") == (0, []), 60, "the agent does not repair it")


@pytest.fixture
def namespace(lab: Lab) -> Iterator[str]:
    name = f"qrouter-{uuid.uuid4()}"
    lab.run("h1", ["ip", "netns", "add", name])
    yield name
    lab.run("h1", ["ip", "netns", "delete", name], check=False)


def test_a_foreign_namespace_and_a_port_without_an_object(site: Lab, namespace: str) -> None:
    port = ["ovs-vsctl", "add-port", "br-int", "tapstray", "--", "set", "Interface", "tapstray", "type=internal"]
    site.run("h1", [*port, f"external_ids:iface-id={uuid.uuid4()}"])
    code, findings = doctor(site, "h1", "--only", "orphans")
    site.run("h1", ["ovs-vsctl", "del-port", "tapstray"])
    assert code == 1
    assert {(each["kind"], each["severity"]) for each in findings} == {
        ("orphan-namespace", "warning"),
        ("orphan-switch-port", "note"),
    }
    assert namespace in findings[0]["what"]
    assert findings[0]["fix"].startswith(f"If nothing uses it: ip netns delete {namespace}")


@pytest.fixture
def quick(site: Lab) -> Iterator[Lab]:
    """The agent of h1 looks at links and flows often."""
    site.stop_agent("h1")
    site.start_agent("h1", {"agent": {"check_interval": 0.5, "repair_interval": 2}})
    yield site
    site.stop_agent("h1")
    site.start_agent("h1", {})


def problems(lab: Lab, host: str = "h1") -> dict[str, str]:
    """Those of a host in the status, by their kind."""
    return {
        each["kind"]: each["what"] for each in json.loads(status(lab, "--json").out)["problems"] if each["host"] == host
    }


def verify(lab: Lab, host: str) -> Done:
    done = lab.run(host, lab.agent_command(host, "verify"), check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_links_that_are_down(quick: Lab) -> None:
    """Disabled on the host, and without carrier as its peer in the fabric is: both are named by status and doctor."""
    assert doctor(quick, "h1", "--only", "links") == (0, [])
    quick.run("h1", ["ip", "link", "set", UNDERLAY, "down"])
    run(host_command(quick.holder(FABRIC), ["ip", "link", "set", "h1-provider", "down"]))
    try:
        wait_until(lambda: "link-down" in problems(quick), 30, "the status does not know it")
        wanted = (
            "the link of provider (physical network physnet1) is down: no carrier",
            f"the link of {UNDERLAY} (underlay) is down: disabled",
        )
        wait_until(lambda: all(text in status(quick).out for text in wanted), 30, "not both are named")
        assert status(quick).status == 1
        _, findings = doctor(quick, "h1", "--only", "links,underlay")
        assert kinds(findings) == {"link-down"}, "neither a route nor a firewall is blamed"
        assert {each["what"] for each in findings} == set(wanted)
    finally:
        quick.run("h1", ["ip", "link", "set", UNDERLAY, "up"])
        run(host_command(quick.holder(FABRIC), ["ip", "link", "set", "h1-provider", "up"]))
    wait_until(lambda: "link-down" not in problems(quick), 30, "it is a problem still")


def test_a_flow_of_another_program_that_cuts_traffic(quick: Lab) -> None:
    """Status, doctor and verify name it; the agent leaves it alone."""
    assert verify(quick, "h1").status == 0
    quick.run("h1", ["ovs-ofctl", "add-flow", "br-int", "cookie=0x666,table=0,priority=60000,ip,actions=drop"])
    try:
        wait_until(lambda: "foreign-rules" in problems(quick), 30, "the status does not know it")
        assert "foreign flows on br-int: 1 that are not this agent's, such as cookie=0x666" in str(problems(quick))
        done = verify(quick, "h1")
        assert done.status == 1
        assert "foreign flow on br-int: cookie=0x666,table=0,priority=60000,ip actions=drop" in done.out
        assert "drift" in kinds(doctor(quick, "h1", "--only", "drift")[1])
        assert "cookie=0x666" in quick.run("h1", ["ovs-ofctl", "dump-flows", "br-int", "cookie=0x666/-1"]).stdout
    finally:
        quick.run("h1", ["ovs-ofctl", "del-flows", "br-int", "cookie=0x666/-1"])
    wait_until(lambda: problems(quick) == {}, 30, "it is a problem still")
    assert verify(quick, "h1").status == 0


def test_a_stopped_agent_is_one_problem_at_once(site: Lab) -> None:
    """Long before agent_down_time, by its connection; and a credential that does not fit is named instead."""
    # A feed that has just started waits for its hosts.
    wait_until(lambda: "connected" in status(site).out and not problems(site, "h2"), 60, "h2 is not well")
    site.stop_agent("h2")
    wait_until(lambda: bool(problems(site, "h2")), 30, "the status does not know it")
    assert {*problems(site, "h2")} == {"host-disconnected"}
    shown = status(site)
    assert (shown.status, shown.out.splitlines()[0].partition(";")[0]) == (1, "DEGRADED: 1 problem")
    assert re.search(r"^h2 .* late ", shown.out, re.MULTILINE)
    wrong = site.paths.state / "wrong-credential"
    wrong.write_text("x" * 43)
    wrong.chmod(0o600)
    site.start_agent("h2", {"feed": {"credential_file": wrong}}, wait=False)
    wait_until(lambda: {*problems(site, "h2")} == {"feed-credential-refused"}, 30, "the refusal is not named alone")
    site.stop_agent("h2")
    site.start_agent("h2", {})
    wait_until(lambda: problems(site, "h2") == {}, 30, "it is a problem still")


def test_stopped_processes(site: Lab) -> None:
    """First the switch, then its database, then the server: each is named, and nothing hangs."""
    site.stop_ovs("h1", database=False)
    assert kinds(doctor(site, "h1", "--only", "openvswitch")[1]) == {"ovs-vswitchd-down"}

    def is_degraded() -> bool:
        shown = status(site)
        return shown.status == 1 and "the dataplane is down" in shown.out

    wait_until(is_degraded, 60, "the status does not show the lost dataplane")
    shown = status(site)
    assert "Open vSwitch agent on h1: the dataplane is down" in shown.out
    assert "Fix: Start Open vSwitch" in shown.out
    site.stop_ovs("h1")
    assert kinds(doctor(site, "h1", "--only", "openvswitch,tunnels,orphans")[1]) == {"ovsdb-unreachable"}
    site.stop_server()
    assert kinds(doctor(site, "h1", "--only", "feed,openvswitch")[1]) == {"feed-unreachable", "ovsdb-unreachable"}
    shown = status(site)
    assert shown.status == 3
    assert shown.error.startswith("neutrino: ")
    assert shown.error.count("\n") == 1
