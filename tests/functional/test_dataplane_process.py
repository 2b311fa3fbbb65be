"""The contract of the process driver, on the fake and with real daemons."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from neutrino.agent.runtime.supervisor import Service, Supervisor
from neutrino.dataplane.netlink.api import SetDevice, SetItem, SetVeth
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.netlink.values import address
from neutrino.dataplane.process.api import Daemon, ExitCode, Process, ProcessError, Processes, exit_text
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from tests.fakes.process import FakeProcesses
from tests.support.waiting import eventually

SLEEP = ("sleep", "1000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000 & wait; done")


class Place:
    """A driver whose daemons no other test has, with a directory for their files."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.directory = directory
        self.owner = f"test-{uuid.uuid4().hex}"
        self.processes: Processes = FakeProcesses() if kind == "fake" else RealProcesses(self.owner)

    def daemon(self, name: str = "sleeper", argv: tuple[str, ...] = SLEEP, **more) -> Daemon:
        return Daemon(name, argv, pid_file=str(self.directory / f"{name}.pid"), **more)

    def again(self) -> Processes:
        """The driver of an agent that was started anew."""
        return self.processes if isinstance(self.processes, FakeProcesses) else RealProcesses(self.owner)

    def kill(self, process: Process) -> None:
        """As an operator does it."""
        if isinstance(self.processes, FakeProcesses):
            self.processes.end(process.name)
        else:
            os.kill(process.pid, signal.SIGKILL)

    def close(self) -> None:
        for process in self.processes.running().values():
            self.processes.stop(process, patience=0.1)


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Place]:
    made = Place("real", tmp_path)
    try:
        yield made
    finally:
        made.close()


def exists(pid: int) -> bool:
    """Whether it is there at all, be it as a zombie."""
    return Path(f"/proc/{pid}").exists()


def test_a_daemon_is_started_found_and_stopped(place):
    daemon = place.daemon()
    assert place.processes.find(daemon.name, daemon.pid_file) is None
    process = place.processes.start(daemon)
    assert (process.name, process.digest) == ("sleeper", daemon.digest())
    for driver in (place.processes, place.again()):
        assert driver.find("sleeper") == process
        assert driver.find("sleeper", daemon.pid_file) == process
        assert driver.running() == {"sleeper": process}
    place.processes.stop(process, pid_file=daemon.pid_file)
    assert place.processes.running() == {}
    assert place.processes.find("sleeper", daemon.pid_file) is None
    assert not Path(daemon.pid_file).exists()
    place.processes.stop(process)


def test_it_is_not_started_twice(place):
    place.processes.start(place.daemon())
    with pytest.raises(ProcessError, match="sleeper is already running"):
        place.again().start(place.daemon())


def test_the_digest_changes_with_the_way_it_is_started(place):
    one = place.daemon()
    assert one.digest() == place.daemon().digest()
    others = [
        place.daemon(argv=("sleep", "1001")),
        place.daemon(environment={"A": "1"}),
        place.daemon(namespace="elsewhere"),
    ]
    assert len({one.digest(), *(each.digest() for each in others)}) == 4


def test_a_missing_program(place):
    if isinstance(place.processes, FakeProcesses):
        place.processes.broken.add("no-such-program")
    with pytest.raises(ProcessError, match="sleeper cannot be started"):
        place.processes.start(place.daemon(argv=("no-such-program",)))
    assert place.processes.running() == {}


def test_signals_reach_only_the_daemon(place):
    process = place.processes.start(place.daemon())
    assert place.processes.send(process, signal.SIGTERM)
    eventually(lambda: place.processes.running() == {})
    assert not place.processes.send(process, signal.SIGHUP)
    again = place.processes.start(place.daemon())
    stranger = Process(again.name, again.pid, again.started + 1)
    assert not place.processes.send(stranger, signal.SIGKILL)
    assert not place.processes.send(Process("other", again.pid, again.started), signal.SIGKILL)
    place.processes.stop(stranger)
    assert place.processes.running() == {"sleeper": again}


def test_an_exit_is_notified(place):
    async def run() -> None:
        process = place.processes.start(place.daemon())
        waiting = asyncio.create_task(place.processes.wait(process))
        await asyncio.sleep(0)
        assert not waiting.done()
        place.kill(process)
        assert await asyncio.wait_for(waiting, 30) == -signal.SIGKILL
        assert place.processes.running() == {}
        assert await place.processes.wait(process) is None  # the status is returned once

    asyncio.run(run())


def test_an_earlier_exit_is_notified_too(place):
    async def run() -> None:
        process = place.processes.start(place.daemon())
        place.kill(process)
        eventually(lambda: place.processes.running() == {})
        assert await asyncio.wait_for(place.processes.wait(process), 30) == -signal.SIGKILL

    asyncio.run(run())


def test_waiting_can_be_cancelled(place):
    async def run() -> None:
        process = place.processes.start(place.daemon())
        waiting = asyncio.create_task(place.processes.wait(process))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        place.kill(process)
        assert await asyncio.wait_for(place.processes.wait(process), 30) == -signal.SIGKILL

    asyncio.run(run())


# --- with real daemons alone ---


def test_a_daemon_that_ignores_sigterm_is_killed_with_its_children(real):
    log = real.directory / "log"
    process = real.processes.start(real.daemon(argv=STUBBORN, log_file=str(log)))
    eventually(lambda: log.exists() and "ready" in log.read_text())
    eventually(lambda: len(marked(real.owner)) == 2)
    started = time.monotonic()
    real.processes.stop(process, patience=0.2)
    assert 0.2 <= time.monotonic() - started < 5
    eventually(lambda: marked(real.owner) == [])


def marked(owner: str) -> list[int]:
    """All processes with the mark, living ones."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and owner.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_children_of_a_killed_daemon_are_killed_before_the_next_start(real):
    log = real.directory / "log"
    process = real.processes.start(real.daemon(argv=STUBBORN, log_file=str(log)))
    eventually(lambda: len(marked(real.owner)) == 2)
    real.kill(process)
    eventually(lambda: real.processes.running() == {})
    (orphan,) = marked(real.owner)
    real.processes.start(real.daemon())
    assert orphan not in marked(real.owner)


def test_no_zombie_is_left_while_we_live(real):
    process = real.processes.start(real.daemon(argv=("true",)))
    eventually(lambda: real.processes.running() == {} and not exists(process.pid))


def test_the_exit_status_of_a_daemon_that_exits_at_once(real):
    process = real.processes.start(real.daemon(argv=("sh", "-c", "exit 3")))
    ended = asyncio.run(asyncio.wait_for(real.processes.wait(process), 30))
    assert ended == 3
    assert exit_text(ended) == "exited with status 3"


def test_a_pid_file_that_names_another_process(real):
    """As after a reboot: the number is another's, which is not touched."""
    with subprocess.Popen(SLEEP) as other:
        try:
            daemon = real.daemon()
            Path(daemon.pid_file).write_text(f"{other.pid}\n")
            assert real.processes.find(daemon.name, daemon.pid_file) is None
            process = real.processes.start(daemon)
            assert Path(daemon.pid_file).read_text() == f"{process.pid}\n"
            Path(daemon.pid_file).write_text("nonsense")
            assert real.processes.find(daemon.name, daemon.pid_file) == process
            real.processes.stop(process, pid_file=daemon.pid_file)
            assert other.poll() is None
        finally:
            other.kill()


def test_daemons_of_other_agents_are_not_ours(real):
    other = RealProcesses(f"{real.owner}-other")
    process = other.start(real.daemon())
    try:
        assert real.processes.running() == {}
        assert not real.processes.send(process, signal.SIGKILL)
        ours = real.processes.start(real.daemon())
        assert other.running() == {"sleeper": process}
        assert real.processes.running() == {"sleeper": ours}
    finally:
        other.stop(process)


def test_output_is_appended_to_the_log(real):
    log = real.directory / "log"
    for number in (1, 2):
        process = real.processes.start(
            real.daemon(argv=("sh", "-c", f"echo {number}; echo bad >&2"), log_file=str(log))
        )
        asyncio.run(asyncio.wait_for(real.processes.wait(process), 30))
    assert log.read_text() == "1\nbad\n2\nbad\n"
    with pytest.raises(ProcessError):
        real.processes.start(real.daemon(log_file=str(real.directory / "none" / "log")))


def test_what_it_inherits(real):
    """A session of its own, none of our descriptors, the given environment, and no signal ignored."""
    log = real.directory / "log"
    script = "ps -o pid=,sid= -p $$; readlink /proc/$$/fd/*; env; exec grep -E 'Sig(Ign|Blk)' /proc/self/status"
    daemon = real.daemon(argv=("sh", "-c", script), log_file=str(log), environment={"LANG": "C"})
    with (real.directory / "inherited?").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        process = real.processes.start(daemon)
        asyncio.run(asyncio.wait_for(real.processes.wait(process), 30))
    lines = log.read_text().split("\n")
    assert lines[0].split() == [str(process.pid)] * 2
    assert {line for line in lines if line.startswith("/")} == {"/dev/null", str(log)}
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names <= {
        "LANG",
        "PATH",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "NEUTRINO_OWNER",
        "NEUTRINO_PROCESS",
        "NEUTRINO_DIGEST",
    }
    of_the_c_library = 1 << 31 | 1 << 32
    assert {int(line.split()[1], 16) & ~of_the_c_library for line in lines if line.startswith("Sig")} == {0}


def test_a_daemon_has_the_usual_priority_whatever_the_agent_has(real):
    def start() -> Process:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)  # of this thread alone
        return real.processes.start(real.daemon())

    with ThreadPoolExecutor(max_workers=1) as pool:
        started = pool.submit(start).result()
    assert os.getpriority(os.PRIO_PROCESS, started.pid) == 0


def test_a_namespace(real):
    netlink, name = RealNetlink(), f"p-{uuid.uuid4().hex[:8]}"
    with pytest.raises(ProcessError, match=name):
        real.processes.start(real.daemon(namespace=name))
    netlink.create_namespace(name)
    try:
        process = real.processes.start(real.daemon(namespace=name))
        inside = os.stat(f"/proc/{process.pid}/ns/net")
        assert inside.st_ino == os.stat(f"/run/netns/{name}").st_ino
        assert inside.st_ino != os.stat("/proc/self/ns/net").st_ino
        real.processes.stop(process)
    finally:
        netlink.delete_namespace(name)


AGENT = """
    import os, sys
    from neutrino.dataplane.process.api import Daemon
    from neutrino.dataplane.process.real import RealProcesses
    RealProcesses(sys.argv[1]).start(Daemon("sleeper", ("sleep", "1000"), pid_file=sys.argv[2]))
    print("started", flush=True)
    sys.stdin.read()
"""


def test_a_daemon_outlives_an_agent_that_is_killed_and_is_found_and_watched_by_the_next(real):
    pid_file = str(real.directory / "sleeper.pid")
    command = [sys.executable, "-c", textwrap.dedent(AGENT), real.owner, pid_file]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"started\n"
        agent.kill()
        agent.wait()
    process = real.processes.find("sleeper", pid_file)
    assert process is not None
    assert process.pid == int(Path(pid_file).read_text())

    async def run() -> ExitCode:
        waiting = asyncio.create_task(real.processes.wait(process))
        await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(run()) is None  # not our child: how it ended, only its parent knows
    assert real.processes.running() == {}


def test_many_daemons_are_found_and_stopped(real):
    for number in range(50):
        real.processes.start(real.daemon(f"sleeper {number}"))
    assert len(real.again().running()) == 50
    before = len(os.listdir("/proc/self/fd"))
    for process in real.processes.running().values():
        real.processes.stop(process)
    assert len(os.listdir("/proc/self/fd")) == before


# --- the daemons that we run ---

KEEPALIVED = """
    global_defs {
        router_id test
        vrrp_version 3
    }
    vrrp_instance one {
        state BACKUP
        interface v0
        virtual_router_id 7
        priority 50
        advert_int 1
        virtual_ipaddress {
            192.0.2.7/32 dev v0
        }
    }
"""
RADVD = "interface lo { AdvSendAdvert on; IgnoreIfMissing on; };\n"


def survives(pid: int, number: signal.Signals) -> bool:
    """Whether a process has its handler of a signal already, or reads it from a descriptor: it would end it otherwise."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(mask & 1 << number - 1 for mask in masks)


@pytest.mark.parametrize("program", ["dnsmasq", "keepalived", "radvd"])
def test_the_daemons_of_a_network_stay_in_the_foreground_and_are_found(real, program):
    netlink, name = RealNetlink(), f"d-{uuid.uuid4().hex[:8]}"
    directory = real.directory
    directory.chmod(0o755)
    (directory / "keepalived.conf").write_text(textwrap.dedent(KEEPALIVED))
    (directory / "radvd.conf").write_text(RADVD)
    pids = [f"--{each}={directory}/{each}.pid" for each in ("pid", "vrrp_pid")]
    commands = {
        "dnsmasq": ("dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--conf-file=", "--interface=lo",
                    "--bind-interfaces", f"--pid-file={directory}/own.pid", "--user=nobody", "--port=0",
                    "--log-facility=-",
                    "--dhcp-range=192.0.2.0,static", f"--dhcp-leasefile={directory}/leases"),
        "keepalived": ("keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file",
                       f"{directory}/keepalived.conf", *pids),
        "radvd": ("radvd", "--nodaemon", "--config", f"{directory}/radvd.conf", "--pidfile", f"{directory}/own.pid"),
    }  # fmt: skip
    assert shutil.which(program), f"{program} is not installed"
    daemon = real.daemon(program, commands[program], namespace=name, log_file=str(directory / "log"))
    netlink.create_namespace(name)
    try:
        netlink.apply(name, [SetDevice("lo", up=True), SetVeth("v0", "v1", name)])
        netlink.apply(name, [SetDevice("v0", up=True), SetDevice("v1", up=True)])
        netlink.apply(name, [SetItem(address("v0", "192.0.2.1/24"))])
        process = real.processes.start(daemon)
        ready = {"dnsmasq": "started", "keepalived": "Startup complete", "radvd": "version"}
        eventually(lambda: ready[program] in (directory / "log").read_text() and survives(process.pid, signal.SIGHUP))
        assert real.again().running() == {program: process}
        assert real.processes.send(process, signal.SIGHUP)
        if program == "keepalived":  # it forgets a SIGTERM that arrives while it reads its configuration again
            eventually(lambda: "Reload complete" in (directory / "log").read_text())
        assert real.again().find(program, daemon.pid_file) == process
        real.processes.stop(process)
        eventually(lambda: marked(real.owner) == [])
    finally:
        real.close()
        netlink.delete_namespace(name)


def test_a_killed_dnsmasq_is_respawned(real):
    """As an operator sees it: the supervisor of the agent, and a real process."""

    async def run() -> None:
        supervisor = Supervisor(real.processes)
        task = asyncio.create_task(supervisor.run())
        _, first = await supervisor.ensure(Service(real.daemon()))
        started = time.monotonic()
        os.kill(first.pid, signal.SIGKILL)
        while (found := real.processes.find("sleeper")) in (None, first):
            assert time.monotonic() - started < 20
            await asyncio.sleep(0.01)
        assert found != first
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert real.processes.find("sleeper") == found

    asyncio.run(run())


def test_marks_of_other_users_are_read_whatever_they_contain(real: Place) -> None:
    """Any user of the machine may start a process with an environment that no agent would make."""
    mine = real.processes.start(real.daemon())
    environments: list[dict[bytes, bytes]] = [
        {b"NEUTRINO_OWNER": b"\xff\xfe", b"NEUTRINO_PROCESS": b"\xff"},
        {b"NEUTRINO_OWNER": real.owner.encode(), b"NEUTRINO_\xff": b"\xff"},
    ]
    others = [subprocess.Popen(SLEEP, env=each) for each in environments]
    try:
        for other in others:
            eventually(lambda: b"NEUTRINO" in Path(f"/proc/{other.pid}/environ").read_bytes())  # noqa: B023
        assert RealProcesses(real.owner).running()["sleeper"] == mine
        owners = {each.pid: each.owner for each in RealForeignProcesses().inside("")}
        assert [owners[other.pid] for other in others] == ["\ufffd\ufffd", real.owner]
    finally:
        for other in others:
            other.kill()
            other.wait()
