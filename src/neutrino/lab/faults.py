"""Faults on purpose: agents, servers and hosts of a lab that stop, and links that are cut.

A host is a pair of namespaces, held by a process that stays: what is in its kernel (devices, named namespaces, rules of
routers) survives `kill_host`, as a machine's disk does, and its links are cut, so that nothing of it is on the networks.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import host_command, run
from neutrino.lab.hosts.processes import read_namespace, read_pids, wait_for_end
from neutrino.lab.lab import SERVER, Lab
from neutrino.lab.settings import FABRIC, UPLINKS

STOP_SECONDS = 30.0


# --- processes --------------------------------------------------------------------------------------------------------


def stop_agent(lab: Lab, host: str, *, kill: bool = False) -> bool:
    """Whether it ran. Its daemons and the dataplane stay."""
    lab.check_host(host)
    return _end(lab.agent_pid(host), f"the agent of {host}", kill)


def start_agent(lab: Lab, host: str) -> float:
    """The seconds until it is alive; 0 if it runs."""
    lab.check_host(host)
    if lab.agent_pid(host) is not None:
        return 0.0
    since = _start_time(lab, host)
    lab.spawn_agent(host)
    return lab.wait_for_agent(host, since)


def stop_server(lab: Lab, *, kill: bool = False) -> bool:
    """Whether it ran. With its children: API workers and the feed."""
    pid = lab.processes.pid(SERVER)
    if pid is None:
        return False
    own = read_namespace(pid, "mnt")
    _end(pid, "the server", kill)
    wait_until(lambda: not _in_namespace(own), STOP_SECONDS, "processes of the server do not end")
    return True


def start_server(lab: Lab) -> float:
    if lab.processes.pid(SERVER) is not None:
        return 0.0
    lab.spawn_keystone()  # if it has ended meanwhile
    lab.spawn_server()
    return lab.wait_for_server()


def _end(pid: int | None, what: str, kill: bool) -> bool:
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
    if not wait_for_end(pid, STOP_SECONDS):
        raise LabError(f"{what} (process {pid}) does not end within {STOP_SECONDS:g} s: --kill ends it at once")
    return True


def _start_time(lab: Lab, host: str) -> str:
    """A time after the last start of the agent: the API shows it in seconds."""
    shown: Callable[[float], str] = lambda at: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))  # noqa: E731
    last = lab.agents().get(host, {}).get("started_at") if lab.api.responds() else None
    now = time.time()
    if shown(now) == last:
        time.sleep(1 - now % 1)
        now += 1
    return shown(now)


def _in_namespace(mount_namespace: str) -> list[int]:
    return [pid for pid in read_pids() if read_namespace(pid, "mnt") == mount_namespace]


# --- links ------------------------------------------------------------------------------------------------------------


def set_link(lab: Lab, host: str, uplink: str, state: str) -> None:
    """Cut a host's link to a network, or restore it: the other end, as when a cable is pulled."""
    lab.check_host(host)
    if uplink not in UPLINKS:
        raise LabError(f"there is no uplink {uplink}: a host has {', '.join(UPLINKS)}")
    run(host_command(lab.holder(FABRIC), ["ip", "link", "set", f"{host}-{uplink}", state]))


# --- hosts ------------------------------------------------------------------------------------------------------------


def kill_host(lab: Lab, host: str) -> int:
    """Cut all links of a host and kill its processes, as when its power fails; returns how many were killed."""
    lab.check_host(host)
    holder = lab.holder(host)
    for uplink in UPLINKS:
        set_link(lab, host, uplink, "down")
    own, killed = read_namespace(holder, "mnt"), set[int]()
    give_up = time.monotonic() + STOP_SECONDS
    while left := [pid for pid in _in_namespace(own) if pid not in (holder, os.getpid())]:
        if time.monotonic() > give_up:
            raise LabError(f"processes of {host} do not end: {', '.join(map(str, sorted(left)))}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for_end(pid, 1.0)
        killed |= set(left)
    return len(killed)


def start_host(lab: Lab, host: str) -> float:
    """Bring a killed host back: its links, its switch, its stand-in for Nova and its agent."""
    lab.check_host(host)
    for uplink in UPLINKS:
        set_link(lab, host, uplink, "up")
    lab.ovs(host).start()
    if "metadata" in lab.settings.roles and lab.processes.pid(f"{host}-nova") is None:
        lab.start_nova(host)
    return start_agent(lab, host)
