"""Benchmark of DHCP on one host of a lab: from the API to a lease, an agent's restart, and many entries that change.

  python -m qa.bench.dhcp [--networks 100] [--entries 1000] [--rounds 10]

Server, feed, agent, switch and dnsmasq are real and share the machine's processors with the clients. Needs root.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from qa.bench.machine import busy, machine
from qa.bench.signals import unwind_if_terminated
from qa.bench.workbench import progress
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import pid, servers
from tests.support.memory import pss_kb

HOST = "h1"
SECONDS = 300.0  # timeout of a step
STEP = 0.002
AGENT = "[agent]\nreport_interval = 1\n"


def until(ready: Callable[[], bool], what: str) -> float:
    """The time at which the condition held."""
    give_up = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise SystemExit(f"{what}: not after {SECONDS:.0f} s")
        time.sleep(STEP)
    return time.monotonic()


def has_dnsmasq(lab: Lab, network_id: str) -> bool:
    return pid(lab, HOST, network_id) != 0


def make_network(lab: Lab, number: int) -> str:
    made = lab.api.create("network", name=f"n{number}")
    lab.api.create("subnet", network_id=made["id"], cidr=f"10.{number // 250}.{number % 250}.0/24", ip_version=4)
    return str(made["id"])


def first_leases(lab: Lab, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds from the first API call to dnsmasq, and to an instance's first lease."""
    running, leased = [], []
    for number in range(rounds):
        started = time.monotonic()
        network_id = make_network(lab, number)
        running.append(until(partial(has_dnsmasq, lab, network_id), "dnsmasq") - started)
        lab.vm(f"vm{number}", network=network_id, host=HOST)
        leased.append(time.monotonic() - started)
        lab.delete_vm(f"vm{number}")
    return [1000 * t for t in running], [1000 * t for t in leased]


def many_networks(lab: Lab, count: int) -> tuple[dict[str, int], float]:
    started = time.monotonic()
    ids = [make_network(lab, 1000 + number) for number in range(count)]
    until(lambda: all(pid(lab, HOST, key) for key in ids), "a dnsmasq for each network")
    return {key: pid(lab, HOST, key) for key in ids}, time.monotonic() - started


def restart(lab: Lab, processes: dict[str, int]) -> float:
    """Seconds from the start of the agent until it has verified everything."""
    lab.stop_agent(HOST)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    started = time.monotonic()
    lab.start_agent(HOST, wait=False)

    def verified() -> bool:
        (agent,) = lab.api.list("agent", agent_type="DHCP agent")
        return bool(agent["started_at"] >= since and agent["configurations"].get("feed_behind") == 0)

    took = until(verified, "the agent to have verified everything") - started
    if processes != {key: pid(lab, HOST, key) for key in processes}:
        raise SystemExit("the agent's restart has restarted a dnsmasq")
    return took


def change_entries(lab: Lab, count: int) -> tuple[float, float]:
    """Seconds of the API for the changes, and from then until dnsmasq has the last one."""
    network_id = lab.api.create("network", name="large")["id"]
    lower = {"start": "172.16.0.2", "end": "172.16.7.254"}  # the upper half is for the changes
    subnet = {"cidr": "172.16.0.0/20", "ip_version": 4, "allocation_pools": [lower]}
    lab.api.create("subnet", network_id=network_id, **subnet)
    made: list[str] = []
    for start in range(0, count, 100):
        wanted = [{"network_id": network_id} for _ in range(min(100, count - start))]
        made += [port["id"] for port in lab.api.request("POST", "/v2.0/ports", {"ports": wanted})["ports"]]
    file = lab.paths.host(HOST) / "dhcp" / network_id / "host"
    until(lambda: file.exists() and file.read_text().count("\n") == count, "the entries")
    process, addresses = pid(lab, HOST, network_id), [f"172.16.{8 + n // 250}.{n % 250 + 1}" for n in range(count)]
    started = time.monotonic()
    for port_id, address in zip(made, addresses, strict=True):
        lab.api.update("port", port_id, fixed_ips=[{"ip_address": address}])
    taken = time.monotonic()

    def reloaded() -> bool:
        text = file.read_text()
        return all(f",{address}\n" in text for address in addresses)

    done = until(reloaded, "the last change")
    if pid(lab, HOST, network_id) != process or len(servers(lab, network_id)) != 1:
        raise SystemExit("dnsmasq was started again for a change that a signal serves")
    return taken - started, done - taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "agent.conf"
        config.write_text(AGENT)
        with temporary_lab(hosts=1, roles=("l2", "dhcp"), agent_config_files=(str(config),)) as lab:
            load = busy()
            progress("networks and their first leases")
            running, leased = first_leases(lab, args.rounds)
            rows.append(("network and subnet created: dnsmasq serves", _median(running)))
            rows.append(("the same until the first lease of an instance created afterwards", _median(leased)))
            progress(f"{args.networks} networks")
            processes, made = many_networks(lab, args.networks)
            rows.append((f"{args.networks} networks and subnets created sequentially: all served", f"{made:.1f} s"))
            agent = lab.agent_pid(HOST)
            assert agent is not None
            rows.append(
                (f"the agent with {len(processes) + args.rounds} networks", f"{pss_kb(agent) / 1024:.0f} MB (PSS)")
            )
            each = statistics.fmean(pss_kb(process) for process in processes.values())
            rows.append(("each dnsmasq", f"{each / 1024:.1f} MB"))
            progress("restart")
            rows.append(
                ("agent restart: all networks verified, no dnsmasq restarted", f"{restart(lab, processes):.1f} s")
            )
            progress(f"{args.entries} entries")
            taken, after = change_entries(lab, args.entries)
            each_ms = 1000 * taken / args.entries
            figure = f"{taken:.1f} s ({each_ms:.0f} ms each), dnsmasq reloaded {1000 * after:.0f} ms after the last"
            rows.append((f"{args.entries:,} addresses changed sequentially through the API", figure))
    print("| what | figure |\n|---|---:|")
    print("\n".join(f"| {name} | {value} |" for name, value in rows))
    print(f"\n{machine()}; load when it began {load:.1f}, at the end {busy():.1f}", file=sys.stderr)
    return 0


def _median(millis: list[float]) -> str:
    return f"{statistics.median(millis):.0f} ms, worst {max(millis):.0f} ms"


if __name__ == "__main__":
    unwind_if_terminated()
    sys.exit(main())
