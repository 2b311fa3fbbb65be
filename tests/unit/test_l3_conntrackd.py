"""conntrackd of HA routers: its configuration, and when it runs on a host."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from neutrino.agent.config import configuration
from neutrino.agent.l3.config import CONTROL_SOCKET, L3Options, conntrackd_problem, l3_options
from neutrino.agent.l3.services.conntrackd.render import render_conntrackd, sync_command
from neutrino.agent.programs import programs_of
from neutrino.cli.doctor import host as host_checks
from neutrino.model.routing import Router
from tests.support import doctor as support
from tests.support.l3_host import NAMESPACE, Host, run
from tests.support.routing import interface, membership, rendered, router

DAEMON = "conntrackd r1"
HA_DEVICE = "ha-ffffffff-aa"
OPTIONS = L3Options(host="h1", veth=True)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, ha_conntrackd_enabled=True)


def configured(text: str, path: Path) -> L3Options:
    file = path / "agent.conf"
    file.write_text(f"[DEFAULT]\nhost = h1\nstate_path = /state\n{text}")
    return l3_options(configuration([str(file)]))


def lines_of(wanted: Router, options: L3Options) -> list[str]:
    failover = rendered(wanted, options).failover
    assert failover is not None
    text = render_conntrackd(failover, options, "/state/lock", "/state/control")
    return [line.strip() for line in text.splitlines()]


def test_hosts_of_a_router_send_to_a_port_of_its_own(tmp_path: Path) -> None:
    options = configured("ha_conntrackd_group = 4000\nha_conntrackd_ipv4_mcast_addr = 225.0.0.9\n", tmp_path)
    lines = lines_of(router(interface(1), ha=membership()), options)
    assert {"Mode NOTRACK {", "IPv4_address 225.0.0.9", "Group 4007", f"Interface {HA_DEVICE}"} <= set(lines)
    assert {"IPv4_interface 169.254.192.7", "IPv4_address 169.254.192.0/18", "Path /state/control"} <= set(lines)


def test_sizes_are_as_configured(tmp_path: Path) -> None:
    names = {
        "hashsize": "HashSize",
        "hashlimit": "HashLimit",
        "socketbuffersize": "SocketBufferSize",
        "socketbuffersize_max_grown": "SocketBufferSizeMaxGrown",
        "sndsocketbuffer": "SndSocketBuffer",
        "rcvsocketbuffer": "RcvSocketBuffer",
    }
    text = "".join(f"ha_conntrackd_{option} = {700 + number}\n" for number, option in enumerate(names))
    lines = lines_of(router(interface(1), ha=membership()), configured(text, tmp_path))
    assert {f"{word} {700 + number}" for number, word in enumerate(names.values())} <= set(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ha_conntrackd_ipv4_mcast_addr = 10.0.0.1\n", "ha_conntrackd_ipv4_mcast_addr=10.0.0.1 is not"),
        ("ha_conntrackd_ipv4_mcast_addr = ff02::1\n", "ha_conntrackd_ipv4_mcast_addr=ff02::1 is not"),
        (f"ha_confs_path = /{'a' * 60}\n", "more than 55 characters"),
        ("", ""),
    ],
)
def test_what_cannot_run_is_refused_at_the_start(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "agent.conf"
    for enabled, expected in (("true", reason), ("false", "")):
        file.write_text(f"[DEFAULT]\nhost = h1\nha_conntrackd_enabled = {enabled}\nstate_path = /state\n{text}")
        assert (conntrackd_problem(configuration([str(file)])) or "").find(expected) >= 0
        assert bool(conntrackd_problem(configuration([str(file)]))) is bool(expected)
    assert len(f"/{'a' * 54}/{'u' * 36}/{CONTROL_SOCKET}") == 107


def test_the_program_is_required_where_it_is_enabled(tmp_path: Path) -> None:
    assert programs_of(["l3"], conntrackd=True)["conntrackd"] == "conntrackd"
    assert "conntrackd" not in {**programs_of(["l3"]), **programs_of(["l2"], conntrackd=True)}
    machine = support.FakeMachine()
    machine.installed.pop("conntrackd", None)
    for settings, found in (
        ({}, []),
        ({"DEFAULT": {"ha_conntrackd_enabled": "true"}}, ["conntrackd is not installed"]),
    ):
        subject = support.host(tmp_path, settings, machine=machine)
        assert [each.what for each in host_checks.programs(subject) if "conntrackd" in each.what] == found


def test_connections_have_events_from_their_beginning() -> None:
    name = "net/netfilter/nf_conntrack_events"
    for enabled in (True, False):
        options = dataclasses.replace(OPTIONS, ha_conntrackd_enabled=enabled)
        sysctls = rendered(router(interface(1), ha=membership()), options).namespace.sysctls
        assert sysctls.get(name) == ("1" if enabled else None)
        assert name not in rendered(router(interface(1)), options).namespace.sysctls


def test_messages_from_elsewhere_are_dropped() -> None:
    """conntrackd listens on all addresses of the namespace, and does not ask who sends."""
    rule = f'iifname != "{HA_DEVICE}" udp dport 3787 drop'
    for enabled in (True, False):
        options = dataclasses.replace(OPTIONS, ha_conntrackd_enabled=enabled)
        tables = rendered(router(interface(1), ha=membership()), options).namespace.tables
        found = [chain.hook for table in tables for chain in table.chains if rule in chain.rules]
        assert [(hook.type, hook.hook) for hook in found if hook] == ([("filter", "input")] if enabled else [])


# --- on a host --------------------------------------------------------------------------------------------------------


def files_of(host: Host) -> set[str]:
    return {path.name for path in (host.state_path / "ha_confs" / "r1").glob("*")}


def test_it_runs_beside_keepalived_and_both_go(host: Host) -> None:
    async def test() -> None:
        host.send(router(interface(1), ha=membership()))
        await host.until(lambda: DAEMON in host.processes.running(), "it does not run")
        await host.role.finish()
        assert await host.verified()
        daemon = next(each for each in host.processes.started if each.name == DAEMON)
        assert daemon.namespace == NAMESPACE
        directory = host.state_path / "ha_confs" / "r1"
        failover = rendered(router(interface(1), ha=membership()), OPTIONS).failover
        assert failover is not None
        command = sync_command(failover, f"{directory}/sync_connections", f"{directory}/conntrackd.conf")
        assert host.ran == [(NAMESPACE, command)]
        assert f'notify "{" ".join(command)}"' in (directory / "keepalived.conf").read_text()
        host.send(None)
        await host.until(lambda: not host.processes.running(), "daemons are left")
        await host.role.finish()
        assert files_of(host) == set()

    run(host, test)


def test_it_is_synchronised_after_each_start(host: Host) -> None:
    async def test() -> None:
        host.send(router(interface(1), ha=membership()))
        await host.until(lambda: len(host.ran) == 1, "not after the first")
        host.processes.end(DAEMON)
        await host.until(lambda: len(host.ran) == 2, "not after a respawn")
        host.device_index = 8  # the device was created anew: its sockets are bound to the one before
        host.send(router(interface(1), ha=membership(), name="new"))
        await host.until(lambda: len(host.ran) == 3, "not after a restart")
        await host.role.finish()

    run(host, test)


def test_a_router_that_is_not_ha_has_none(host: Host) -> None:
    async def test() -> None:
        host.send(router(interface(1), ha=membership()))
        await host.until(lambda: DAEMON in host.processes.running(), "it does not run")
        host.send(router(interface(1)))
        await host.until(lambda: DAEMON not in host.processes.running(), "it is left")
        await host.role.finish()
        assert files_of(host) == set()

    run(host, test)


def test_without_the_option_it_ends(host: Host) -> None:
    def then(found: Callable[[], bool], what: str) -> None:
        async def test() -> None:
            host.send(router(interface(1), ha=membership()))
            await host.until(found, what)
            await host.role.finish()

        run(host, test)

    then(lambda: DAEMON in host.processes.running(), "it does not run")
    host.settings = {}
    host.restart()
    then(lambda: DAEMON not in host.processes.running(), "it is left")
    assert not any("conntrackd" in name or "sync" in name for name in files_of(host))
    assert "notify " not in (host.state_path / "ha_confs" / "r1" / "keepalived.conf").read_text()


def test_a_router_works_where_it_cannot_be_started(host: Host) -> None:
    host.processes.broken.add("conntrackd")

    async def test() -> None:
        host.send(router(interface(1), ha=membership()))
        await host.until(lambda: "r1" in host.problems, "no problem is shown")
        assert "not handed over" in host.problems["r1"]
        assert "conntrackd r1 cannot be started" in host.problems["r1"]
        await host.until(lambda: "keepalived r1" in host.processes.running(), "the router does not fail over")

    run(host, test)
