"""`neutrino up`, typed and ended as a person does, and machines of its own to run it on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.memory import alive, tree
from tests.support.neutrino import PROGRAM
from tests.support.ports import free_port
from tests.support.process import wait_until

READY = "Ctrl-C ends it"


@dataclass
class Up:
    process: subprocess.Popen[bytes]
    output: Path
    url: str

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def ctrl_c(self) -> int:
        """The terminal sends the signal to every process of the command; the exit status."""
        family = tree(self.process.pid)
        os.killpg(self.process.pid, signal.SIGINT)
        status = self.process.wait(timeout=20)
        wait_until(lambda: not any(map(alive, family)), timeout=5, what="a process of neutrino up", failed=lambda: None)
        return status


@contextmanager
def up(directory: Path, *arguments: str, path: str | None = None, inside: Sequence[str] = ()) -> Iterator[Up]:
    """`neutrino up` in a directory, once it has said what to type next."""
    if inside:
        arguments = (*arguments, "--state", str(directory / "state"))
    else:
        arguments = (*arguments, "--no-dataplane")  # the devices of this machine are not ours to make
    port = free_port()
    output = directory / "output"
    environment = {"PATH": path or f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(directory)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*inside, PROGRAM, "up", "--port", str(port), *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Up(process, output, f"http://127.0.0.1:{port}")
    try:
        wait_until(
            lambda: READY in running.text,
            timeout=60,
            what="neutrino up",
            failed=lambda: None if process.poll() is None else f"ended with {process.returncode}:\n{running.text}",
        )
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=20)


def commands(text: str) -> list[str]:
    return [line.strip() for line in re.findall(r"^  \S.*$", text, re.MULTILINE)]


@contextmanager
def machine() -> Iterator[list[str]]:
    """A network of its own, as of another machine: how to run a command in it."""
    script = (
        "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && echo ready && exec sleep 600"
    )
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "bash", "-euc", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield ["nsenter", "--target", str(holder.pid), "--net", "--mount", "--"]
    finally:
        holder.kill()
        holder.wait()


def ask(machine: Sequence[str], url: str, method: str = "GET", body: object = None) -> dict[str, Any]:
    data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
    command = [*machine, "curl", "-sS", "-X", method, *data, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def output(machine: Sequence[str], *command: str) -> str:
    return subprocess.run([*machine, *command], capture_output=True, text=True, timeout=60, check=False).stdout


def devices(machine: Sequence[str]) -> set[str]:
    """The network devices of a machine, its loopback aside."""
    return {link["ifname"] for link in json.loads(output(machine, "ip", "-json", "link"))} - {"lo"}


def named_namespaces(machine: Sequence[str]) -> set[str]:
    return {line.split()[0] for line in output(machine, "ip", "netns").splitlines()}
