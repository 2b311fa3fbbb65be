"""Daemons of Neutron's agents, saved and started again in place of ours: real dnsmasq, haproxy, radvd and conntrackd."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.conntrackd.render import render_conntrackd
from neutrino.agent.l3.services.keepalived.render import Failover
from neutrino.agent.takeover.daemons import OurDaemons, SavedDaemon, read_daemons, reload_keepalived, restart
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.process.api import Daemon
from neutrino.dataplane.process.real import RealProcesses
from neutrino.model.routing import HaMembership, RouterAddress, RouterInterface
from tests.support.neutron_daemons import (
    CLIENT,
    CLIENT6,
    CLIENT_MAC,
    SERVER,
    SERVER6,
    Neutron,
    command,
    neutron,
    programs,
    wait_for,
)
from tests.support.waiting import eventually

PREFIX = "2001:db8:77"
LATER = 4_000_000_000  # the end of leases


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Neutron]:
    tmp_path.chmod(0o755)
    with neutron(tmp_path / "neutron") as made:
        yield made


def ours(host: Neutron) -> OurDaemons:
    return OurDaemons(str(host.state_path.parent / "ours"), str(host.state_path.parent / "no-such-socket"))


def saved_of(object_id: str) -> dict[str, SavedDaemon]:
    """As they are after a snapshot was written to disk and read again."""
    text = msgspec.json.encode([each for each in read_daemons() if each.object_id == object_id])
    return {each.program: each for each in msgspec.json.decode(text, type=list[SavedDaemon])}


def test_dnsmasq_starts_again_with_the_leases_of_ours(host: Neutron) -> None:
    network_id = str(uuid.uuid4())
    name, device = f"qdhcp-{network_id}", "tap0123abcd-ef"
    host.namespace(name, device, f"{SERVER}/24", f"{SERVER6}/64")
    directory = host.dnsmasq(network_id, device)
    saved = saved_of(network_id)["dnsmasq"]
    assert saved.namespace == saved.started_in == name
    assert saved.environment["PROCESS_TAG"] == f"dnsmasq-{network_id}"
    (pid,) = programs(name)
    assert restart([saved], ours(host)) == []
    assert list(programs(name)) == [pid], "it was not replaced yet: nothing is started"

    command("kill", str(pid))
    wait_for(name)
    ours_at, leases = host.state_path.parent / "ours", f"duid 00:01\n{LATER} 7 {CLIENT6} * 00:02\n"
    ours_at.mkdir()
    (ours_at / "leases").write_text(f"{LATER} {CLIENT_MAC} {CLIENT} vm 01:{CLIENT_MAC}\n{leases}")
    for file in directory.iterdir():
        file.write_text("ours\n")
    argv = ("dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--conf-file=/dev/null", "--user=root")
    argv = (*argv, f"--dhcp-leasefile={ours_at}/leases", "--dhcp-range=10.0.0.0,static", "--leasefile-ro")
    processes = RealProcesses(str(ours_at))
    processes.start(Daemon(f"dnsmasq {network_id}", argv, name))
    wait_for(name, "dnsmasq")

    assert restart([saved], ours(host)) == []
    (again,) = programs(name)
    assert processes.running() == {}
    assert Path(f"/proc/{again}/cmdline").read_text().split("\0")[:-1] == list(saved.argv)
    assert (directory / "interface").read_text() == device
    assert CLIENT_MAC in (directory / "host").read_text()
    assert f"{LATER} {CLIENT_MAC} {CLIENT} vm 01:{CLIENT_MAC}" in (directory / "leases").read_text()
    assert CLIENT6 in (directory / "leases").read_text()
    assert int((directory / "pid").read_text()) == again

    command("kill", str(again))
    wait_for(name)
    before = (directory / "leases").read_text()
    assert restart([saved], ours(host)) == [], "a way back that was killed between both is repeated"
    wait_for(name, "dnsmasq")
    assert (directory / "leases").read_text() == before


def test_radvd_and_haproxy_start_again(host: Neutron) -> None:
    router_id = str(uuid.uuid4())
    name, device = f"qrouter-{router_id}", "qr-0123abcd-ef"
    client = host.namespace(name, device, f"{PREFIX}::1/64")
    command("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv6.conf.all.forwarding=1")
    host.haproxy(name)
    host.radvd(router_id, device, f"{PREFIX}::/64")
    wait_for(name, "haproxy", "radvd", "radvd")
    saved = saved_of(router_id)
    assert saved.keys() == {"haproxy", "radvd"}
    processes = RealProcesses(ours(host).state_path)
    argv = ("radvd", "-n", "-C", saved["radvd"].paths[0].path, "-p", str(host.state_path / "own.pid"), "-u", "root")
    processes.start(Daemon(f"radvd {router_id}", argv, name))
    for pid in [pid for pid, program in programs(name).items() if program == "haproxy"]:
        command("kill", str(pid))
    theirs = int((host.pids / f"{router_id}.pid.radvd").read_text())
    command("kill", "-9", str(theirs))
    with (host.state_path / "routes").open("wb") as output:
        watch = ["ip", "netns", "exec", client, "stdbuf", "-oL", "ip", "-6", "monitor", "route"]
        monitor = subprocess.Popen(watch, stdout=output)
    try:
        assert restart(saved.values(), ours(host)) == []
        assert processes.running() == {}
        time.sleep(0.3)
    finally:
        monitor.kill()
        monitor.wait()
    assert "Deleted default" not in (host.state_path / "routes").read_text()
    assert {"haproxy", "radvd"} == set(programs(name).values())
    assert int((host.pids / f"{router_id}.pid.radvd").read_text()) in programs(name)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory for sockets, whose paths have 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="ct-") as directory:
        yield Path(directory)


def test_conntrackd_starts_again_in_place_of_ours(host: Neutron, short: Path) -> None:
    """Where the directory of both is the same, they have one socket for commands."""
    router_id = str(uuid.uuid4())
    name, device = f"qrouter-{router_id}", "ha-0123abcd-ef"
    host.namespace(name, device, "169.254.192.9/18")
    directory = host.state_path / "ha_confs" / router_id
    directory.mkdir(parents=True)
    file, control, lock = directory / "conntrackd.conf", short / "ctl", short / "lock"
    address = RouterAddress(ip_address="169.254.192.9", subnet_id="s", cidr="169.254.192.0/18")
    port = RouterInterface(id="0123abcd-ef", network_id="n", mac_address="fa:16:3e:00:00:01", addresses=(address,))
    failover = Failover(name, HaMembership(interface=port, vr_id=7), {}, (), ())
    theirs = render_conntrackd(failover, L3Options(), str(lock), str(control))
    file.write_text(theirs)
    host.start(name, f"conntrackd-{router_id}", "conntrackd", "-d", "-C", str(file))
    wait_for(name, "conntrackd")
    saved = saved_of(router_id)
    assert saved.keys() == {"conntrackd"}
    for pid in programs(name):
        command("kill", str(pid))
    eventually(lambda: programs(name) == {} and not lock.exists(), 10)
    processes = RealProcesses(ours(host).state_path)
    file.write_text(theirs.replace("HashLimit 131072", "HashLimit 100000"))
    processes.start(Daemon(f"conntrackd {router_id}", ("conntrackd", "-C", str(file)), name))
    eventually(control.exists, 10)
    assert restart(saved.values(), ours(host)) == []
    assert processes.running() == {}
    assert file.read_text() == theirs
    assert "cache internal" in command("ip", "netns", "exec", name, "conntrackd", "-C", str(file), "-s")


def test_a_daemon_that_does_not_start_is_named_with_its_reason(host: Neutron) -> None:
    router_id = str(uuid.uuid4())
    host.namespace(f"qrouter-{router_id}", "qr-0123abcd-ef")
    broken = SavedDaemon(
        "haproxy",
        router_id,
        *(f"qrouter-{router_id}", f"qrouter-{router_id}"),
        ("haproxy", "-f", f"/no/such/{router_id}.conf"),
        "/",
        {},
    )
    (problem,) = restart([broken], ours(host))
    assert problem.startswith(f"haproxy in qrouter-{router_id} is not started: ")
    assert "Cannot open configuration file" in problem or "No such file" in problem


def test_keepalived_gets_its_file_back_by_a_signal(host: Neutron) -> None:
    """A script stands for it: a real one would send advertisements."""
    router_id = str(uuid.uuid4())
    name = f"qrouter-{router_id}"
    host.namespace(name, "qr-0123abcd-ef")
    directory = host.state_path / "ha_confs" / router_id
    directory.mkdir(parents=True)
    file, heard = directory / "keepalived.conf", directory / "heard"
    file.write_text("theirs\n")
    (directory / "state").write_text("primary")
    script = host.state_path / "keepalived"
    # It starts nothing while it waits: the processes of the namespace are the same whenever they are listed.
    hears = f"trap 'cp {file} {heard}.new && mv {heard}.new {heard}' HUP"
    script.write_text(f"#!/bin/sh\n{hears}\nsleep 600 &\nwhile :; do wait; done\n")
    script.chmod(0o755)
    # A shell cannot trap a signal that was ignored when it started, as below nohup.
    argv = ["env", "--default-signal=HUP", "ip", "netns", "exec", name, str(script), "-P", "-f", str(file), "-p", "x"]
    process = subprocess.Popen(argv, start_new_session=True)
    monitor_argv = ("--router_id", router_id, "--namespace", name, "--conf_dir", str(directory))
    monitor = host.state_path / "neutron-keepalived-state-change"
    monitor.write_text("#!/bin/sh\nsleep 600 &\nwait\n")
    monitor.chmod(0o755)
    watching = subprocess.Popen([str(monitor), *monitor_argv], start_new_session=True)
    try:
        wait_for(name, "keepalived", "sleep")
        saved = saved_of(router_id)
        assert saved.keys() == {"keepalived", "neutron-keepalived-state-change"}
        assert saved["neutron-keepalived-state-change"].started_in == HOST
        assert {Path(each.path).name for each in saved["keepalived"].paths} == {
            *("ha_confs", router_id, "keepalived.conf", "state")
        }
        file.write_text("ours\n")
        assert reload_keepalived(saved["keepalived"], ours(host))
        eventually(heard.exists)
        assert file.read_text() == "theirs\n"
        assert (process.poll(), heard.read_text()) == (None, "theirs\n")
    finally:
        for each in (process, watching):
            os.killpg(each.pid, signal.SIGKILL)  # with its child
            each.wait()
    assert not reload_keepalived(saved["keepalived"], ours(host))
