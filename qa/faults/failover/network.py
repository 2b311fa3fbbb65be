"""The network of the database nodes: a namespace for each node, connected by a bridge.

Everything is inside a network namespace of this process, so nothing remains when it ends. A node is cut off from the other
nodes (its clients still reach it), or from everything (packets are dropped without an answer, as by a dead switch).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.memory import tree
from tests.support.process import TemporaryServer
from tests.support.throwaway_namespace import ThrowawayNamespace

BRIDGE = "db-nodes"
_INSIDE = "NEUTRINO_FAILOVER_NETWORK"
_REPLICATION = "{ 4444, 4567, 4568 }"  # Galera: state transfer, group communication, incremental state transfer


def enter() -> None:
    """Restart this program in a network namespace of its own, with the bridge of the nodes."""
    if os.environ.get(_INSIDE):
        return
    if os.geteuid():
        raise SystemExit("this command needs root: it makes network namespaces")
    script = (
        f"ip link set lo up && ip link add {BRIDGE} type bridge && ip address add {address(0)}/24 dev {BRIDGE} && "
        f'ip link set {BRIDGE} up && exec "$@"'
    )
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = ["-m", spec.name] if spec is not None else [sys.argv[0]]
    command = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, *program, *sys.argv[1:]]
    os.execvpe("unshare", command, {**os.environ, _INSIDE: "1"})


def address(number: int) -> str:
    """The address of a node; number 0 is this process."""
    return f"10.99.0.{10 + number}"


class NodeNetwork:
    """The network namespace of one node."""

    def __init__(self, number: int) -> None:
        self.address = address(number)
        self._outer = f"db{number}"
        self._inside = ThrowawayNamespace()
        try:
            _run("ip", "link", "add", self._outer, "type", "veth", "peer", "eth0", "netns", str(self._inside.pid))
            _run("ip", "link", "set", self._outer, "master", BRIDGE, "up")
            self._inside.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
            self._inside.run("ip", "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    def command(self, argv: Sequence[str], account: pwd.struct_passwd | None) -> list[str]:
        """The command line that runs `argv` inside, as this user."""
        user = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"] if account else []
        # The kernel forgets the signal when the user changes, so it is set again.
        return ["nsenter", f"--net={self._inside.path}", "--", "setpriv", *user, "--pdeathsig", "KILL", "--", *argv]

    def partition(self) -> None:
        """Drop what the other nodes send and receive; clients still reach the node."""
        rules = "\n".join(f"tcp {way} {_REPLICATION} drop" for way in ("sport", "dport"))
        self._drop(rules)

    def isolate(self) -> None:
        """Drop every packet."""
        self._drop('iifname "eth0" drop\noifname "eth0" drop')

    def heal(self) -> None:
        self._inside.run("nft", "flush", "ruleset")

    def close(self) -> None:
        # The kernel removes the devices of a namespace some time after its last process: the name is needed again before.
        with contextlib.suppress(subprocess.CalledProcessError):
            _run("ip", "link", "delete", self._outer)
        self._inside.close()

    def _drop(self, rules: str) -> None:
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0;\n{_usable(rules, hook)}\n}}\n"
            for hook in ("input", "output")
        )
        self._inside.run("nft", "-f", "-", text=f"table inet fault {{\n{chains}}}\n")


def _usable(rules: str, hook: str) -> str:
    """The rules that this hook can have: there is no incoming interface on output."""
    wrong = "oifname" if hook == "input" else "iifname"
    return "\n".join(rule for rule in rules.splitlines() if not rule.startswith(wrong))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)


class NodeServer(TemporaryServer):
    """A database server in the network namespace of its node."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.network = NodeNetwork(number)
        self.address = self.network.address
        self.frozen = False
        self._enters = False

    def spawn_inside(self, argv: Sequence[str], env: Mapping[str, str], ready: Callable[[], bool], **how: Any) -> None:
        self._processes = [one for one in self._processes if one[0].poll() is None]
        self._enters = True  # only root may enter the namespace; the command changes to the server's user then
        try:
            self.spawn(self.network.command(argv, self._account), env, ready=ready, **how)
        finally:
            self._enters = False

    def _identity(self) -> dict[str, Any]:
        return {} if self._enters else super()._identity()

    @property
    def pid(self) -> int:
        return self.pids[-1]  # of the server itself: the programs in front of it exec the next one

    def kill(self) -> None:
        """SIGKILL to the server and all it has started."""
        self._signal(signal.SIGKILL)
        self._processes[-1][0].wait(20)
        self.frozen = False

    def shut_down(self) -> None:
        """End the server in order."""
        process, stop_signal = self._processes[-1]
        process.send_signal(stop_signal)
        process.wait(60)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.frozen = False

    def _signal(self, number: signal.Signals) -> None:
        """By process: the processes of PostgreSQL are not in one group. The first one first, which could start more."""
        for pid in tree(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        if self.frozen:
            with contextlib.suppress(ProcessLookupError, IndexError):
                self.thaw()
        self.network.heal()
        super().stop()
        self.network.close()
