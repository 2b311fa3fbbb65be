"""Soak test: an hour of mixed load with restarts in a lab, after which nothing may have grown.

  python -m qa.faults.soak [--minutes 60] [--hosts 2] [--seed N] [--out FILE] [--images docs/images]

A lab with all roles and the real switch. A cycle creates networks, instances, routers and floating IPs, changes them,
restarts one process of the first host or of the server, waits until everything has converged, and deletes everything.
Then a sample is taken: memory (PSS), open files and threads of the server, the feed, the agents and the switches, flows,
conntrack entries, namespaces, and rows of the tables. The agents of the other hosts are never restarted. Meanwhile a
client measures requests. The medians of the second and the last quarter are compared: what has grown is reported, and
the exit status is 1. Conntrack entries have to expire after the last cycle. A run of fewer than twelve cycles only tests
that everything converges and is cleaned up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.ovs import SWITCH
from neutrino.lab.lab import SERVER
from qa.bench.chart import chart
from qa.bench.client import Client, LoadError, Target
from qa.bench.workbench import progress
from qa.faults.chaos import OPTIONS, SETTLE_SECONDS, Chaos
from tests.support import memory
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_faults import feed_process

CHANGES = 25  # per cycle
PROBE_SECONDS = 0.25  # between two measured requests
TABLES = ("ports", "networks", "routers", "floatingips", "ip_allocations", "provisioning_blocks", "journal", "changes")
# What may differ between the second and the last quarter: a share, and an absolute amount.
TOLERANCE = {
    "memory": (0.10, 4.0),
    "files": (0.10, 8.0),
    "threads": (0.0, 2.0),
    "switch": (0.02, 5.0),
    "rows": (0.02, 5.0),
}
ENOUGH = 12  # cycles: each quarter needs some, since a restarted process is smaller than an old one
GROWING = frozenset({"rows changes"})  # kept for an hour ([feed] keep_changes), so it grows during the first one
# Their number is that of the cycles within the time-outs of conntrack: judged at the end, when all have to expire.
TRACKED, MAX_TRACKED, EXPIRY_SECONDS = "switch conntrack", 5, 240.0
Sample = dict[str, float]


# --- judgement, pure ---------------------------------------------------------------------------------------------------


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the second and of the last quarter; the first one is the warm-up."""
    size = max(len(values) // 4, 1)
    return statistics.median(values[size : 2 * size] or values), statistics.median(values[-size:])


def grown(samples: Sequence[Sample]) -> list[str]:
    """The series whose last quarter is above the second one by more than the tolerance."""
    found = []
    names = {name for sample in samples for name in sample if not name.startswith(TRACKED)}
    for name in sorted(names - GROWING):
        values = [sample[name] for sample in samples if name in sample]
        share, amount = TOLERANCE[name.partition(" ")[0]]
        before, after = quarters(values)
        if after > before * (1 + share) + amount:
            found.append(f"{name}: {before:.1f} in the second quarter, {after:.1f} in the last one")
    return found


def percentiles(requests: Sequence[tuple[float, float]], minutes: float) -> dict[str, list[tuple[float, float]]]:
    """(minute, milliseconds) of all requests → percentiles over time, in at most thirty parts."""
    width = max(minutes / 30, 0.25)
    parts: dict[int, list[float]] = {}
    for minute, millis in requests:
        parts.setdefault(int(minute / width), []).append(millis)
    found: dict[str, list[tuple[float, float]]] = {"p50": [], "p95": [], "p99": []}
    for part, several in sorted(parts.items()):
        ordered = sorted(several)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found[name].append(((part + 0.5) * width, ordered[min(len(ordered) - 1, int(len(ordered) * share))]))
    return found


# --- the load ----------------------------------------------------------------------------------------------------------


class Probe(threading.Thread):
    """Shows, lists, creates and deletes a port, again and again; requests that meet a restart are counted, not timed."""

    def __init__(self, url: str, network_id: str) -> None:
        super().__init__(daemon=True)
        headers = {"X-Project-Id": "soak", "X-User-Id": "soak", "X-Roles": "admin,member,reader"}
        self._client = Client(Target(url, headers, float("inf"), timeout=30.0))
        self._network_id = network_id
        self._began = time.monotonic()
        self._over = threading.Event()
        self.requests: list[tuple[float, float]] = []
        self.failed = 0

    def run(self) -> None:
        left: list[str] = []
        while not self._over.is_set():
            try:
                made = self._timed(lambda: self._client.post("/ports", {"port": {"network_id": self._network_id}}))
                left.append(made.item()["id"])
                self._timed(lambda: self._client.get(f"/ports/{left[-1]}"))
                self._timed(lambda: self._client.get("/ports?limit=20"))
                while left:
                    key = left[-1]
                    self._timed(lambda key=key: self._client.delete(f"/ports/{key}", accept=(204, 404)))  # type: ignore[misc]
                    left.pop()
            except LoadError:
                self.failed += 1
            self._over.wait(PROBE_SECONDS)

    def _timed(self, ask: Callable[[], Any]) -> Any:
        reply = ask()
        self.requests.append(((time.monotonic() - self._began) / 60, reply.millis))
        return reply

    def end(self) -> None:
        self._over.set()
        self.join(60)


class Soak:
    def __init__(self, lab: Lab, seed: int, hosts: Sequence[str]) -> None:
        self._lab = lab
        self._seed = seed
        self._rng = random.Random(seed)
        self._hosts = hosts
        self._cycles = 0
        self.samples: list[Sample] = []
        self.times: list[float] = []  # minutes

    def run(self, minutes: float) -> None:
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60:
            self._cycle()
            self.samples.append(self._sample())
            self.times.append((time.monotonic() - began) / 60)
            last = self.samples[-1]
            text = ", ".join(f"{name} {last[name]:.0f}" for name in sorted(last) if name.startswith("memory"))
            progress(f"cycle {self._cycles} after {self.times[-1]:.1f} minutes: {text}")
        progress("wait until conntrack entries expire")
        wait_until(self._have_expired, EXPIRY_SECONDS, "conntrack entries do not expire")

    def _have_expired(self) -> bool:
        return all(self._tracked(host) <= MAX_TRACKED for host in self._hosts)

    def _cycle(self) -> None:
        chaos = Chaos(self._lab, self._seed + self._cycles)
        changes = chaos.changes
        for step in (changes.make_net, changes.make_net, changes.make_router, *[changes.make_machine] * 4):
            step()
        for _ in range(CHANGES):
            self._rng.choice(changes.all)()
        restarted = (self._restart_agent, self._restart_switch, self._restart_feed, self._restart_server)
        restarted[self._cycles % len(restarted)](chaos)
        chaos.check()
        changes.delete_everything()
        for group in (changes.group, changes.closed):
            self._lab.api.delete("security_group", group)
        wait_until(lambda: not chaos.left(), SETTLE_SECONDS, "something is left on the hosts")
        self._cycles += 1

    def _restart_agent(self, chaos: Chaos) -> None:
        self._lab.stop_agent(self._hosts[0], kill=True)
        self._lab.start_agent(self._hosts[0])

    def _restart_switch(self, chaos: Chaos) -> None:
        self._lab.stop_ovs(self._hosts[0], kill=True, database=False)
        self._lab.start_ovs(self._hosts[0])

    def _restart_feed(self, chaos: Chaos) -> None:
        chaos.kill_feed()

    def _restart_server(self, chaos: Chaos) -> None:
        self._lab.stop_server(kill=True)
        self._lab.start_server()

    # --- samples --------------------------------------------------------------------------------------------------

    def _sample(self) -> Sample:
        found: Sample = {}
        for name, pids in self._processes():
            with contextlib.suppress(OSError):
                found[f"memory {name} (MB)"] = sum(map(memory.pss_kb, pids)) / 1024
                found[f"files {name}"] = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
                found[f"threads {name}"] = sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids)
        for host in self._hosts:
            flows = self._lab.run(host, ["ovs-ofctl", "dump-flows", "br-int"]).stdout.count("\n")
            namespaces = self._lab.run(host, ["ip", "netns"]).stdout.count("\n")
            found |= {f"switch flows of {host}": flows, f"switch namespaces of {host}": namespaces}
            found[f"{TRACKED} entries of {host}"] = self._tracked(host)
        for table, number in self._rows():
            found[f"rows {table}"] = number
        return found

    def _tracked(self, host: str) -> int:
        return self._lab.run(host, ["ovs-appctl", "dpctl/dump-conntrack"], check=False).stdout.count("\n")

    def _processes(self) -> Iterator[tuple[str, list[int]]]:
        server, feed = self._lab.processes.pid(SERVER), 0
        with contextlib.suppress(LookupError):
            feed = feed_process(self._lab)
        if server is not None:
            yield "server", [pid for pid in memory.tree(server) if pid != feed]
        if feed:
            yield "feed", [feed]
        for host in self._hosts:
            pid = self._lab.agent_pid(host)
            if pid is not None:
                yield f"agent {host}", [pid]
            switch = self._lab.ovs(host).pid(SWITCH)
            if switch is not None:
                yield f"switch {host}", [switch]

    def _rows(self) -> Iterator[tuple[str, int]]:
        path = next(iter(self._lab.paths.state.rglob("*.sqlite")), None)
        if path is None:
            return
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in TABLES:
                if table in known:
                    yield table, connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


# --- results -----------------------------------------------------------------------------------------------------------


def images(soak: Soak, probe: Probe, minutes: float) -> dict[str, str]:
    """SVG charts by the names of their files."""

    def series(word: str) -> dict[str, list[tuple[float, float]]]:
        names = sorted({name for sample in soak.samples for name in sample if name.startswith(word)})
        return {
            name.removeprefix(f"{word} "): [
                (at, sample[name]) for at, sample in zip(soak.times, soak.samples, strict=True) if name in sample
            ]
            for name in names
        }

    latency = percentiles(probe.requests, minutes)
    return {
        "soak-latency.svg": chart("Soak: duration of requests", "minutes", "ms", latency, log_y=True),
        "soak-memory.svg": chart("Soak: memory (PSS) without any object", "minutes", "MB", series("memory")),
        "soak-files.svg": chart("Soak: open files", "minutes", "files", series("files")),
        "soak-threads.svg": chart("Soak: threads", "minutes", "threads", series("threads")),
        "soak-switch.svg": chart("Soak: flows, conntrack entries, namespaces", "minutes", "number", series("switch")),
    }


def table(soak: Soak, probe: Probe) -> str:
    rows = ["| after each cycle, without any object | second quarter | last quarter |", "|---|---:|---:|"]
    for name in sorted({name for sample in soak.samples for name in sample}):
        before, after = quarters([sample[name] for sample in soak.samples if name in sample])
        rows.append(f"| {name} | {before:,.1f} | {after:,.1f} |")
    millis = sorted(each for _, each in probe.requests)
    if millis:
        p50, p95, p99 = (millis[min(len(millis) - 1, int(len(millis) * share))] for share in (0.5, 0.95, 0.99))
        text = f"median {p50:.1f} ms, 95 % {p95:.1f} ms, 99 % {p99:.1f} ms"
        rows += ["", f"{len(millis):,} requests: {text}; {probe.failed} met a restart."]
    return "\n".join(rows) + "\n"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, help="write the samples to this file, as JSON, and logs beside it if it fails"
    )
    parser.add_argument("--images", type=Path, help="write the charts to this directory")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: the lab is removed
    progress(f"{args.minutes:g} minutes, {args.hosts} hosts, seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="neutrino-soak-") as directory:
        options = Path(directory) / "agent.conf"
        options.write_text(OPTIONS.format(firewall="openvswitch", distributed=False))
        roles = ("l2", "dhcp", "l3", "metadata")
        with temporary_lab(hosts=args.hosts, roles=roles, agent_config_files=(str(options),)) as lab:
            own = lab.api.create("network", name="soak")
            lab.api.create("subnet", network_id=own["id"], ip_version=4, cidr="10.250.0.0/24", enable_dhcp=False)
            soak, probe = Soak(lab, args.seed, lab.hosts), Probe(lab.api.url, own["id"])
            probe.start()
            problem = ""
            try:
                soak.run(args.minutes)
            except LabError as error:
                problem = str(error)
                if args.out is not None:  # the lab's directory is removed
                    shutil.copytree(lab.paths.logs, args.out.with_suffix(".logs"), dirs_exist_ok=True)
            finally:
                probe.end()
    if not soak.samples:
        progress(f"no cycle was completed: {problem}")
        return 1
    sys.stdout.write(table(soak, probe))
    if args.out is not None:
        raw = {"times": soak.times, "samples": soak.samples, "requests": probe.requests, "failed": probe.failed}
        args.out.write_text(json.dumps(raw) + "\n", encoding="utf-8")
    if args.images is not None:
        args.images.mkdir(parents=True, exist_ok=True)
        for name, text in images(soak, probe, args.minutes).items():
            (args.images / name).write_text(text, encoding="utf-8")
    found = [problem] if problem else []
    if len(soak.samples) < ENOUGH:
        progress(f"{len(soak.samples)} cycles are too few to judge growth: {ENOUGH} are needed")
    else:
        found += grown(soak.samples)
    for text in found:
        progress(text)
    progress("failed" if found else f"passed: {len(soak.samples)} cycles")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
