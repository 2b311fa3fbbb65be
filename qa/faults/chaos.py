"""Random API changes and random faults in a lab: connectivity always converges to the desired state.

  python -m qa.faults.chaos [--rounds N] [--seed N] [--hosts N]
                               [--firewall openvswitch|iptables_hybrid] [--distributed-dhcp]

A lab with all roles. A round is some changes (networks, instances, routers of every kind, floating IPs) and some faults
(agents, switches, the server, its feed, daemons, hosts), in any order. After it every instance tries to reach every
address, requests a lease and its metadata. The results must converge to those that the model predicts, ports and floating
IPs must have their status, and `verify` must find no drift on any host. At the end everything is deleted, and nothing may
be left. The periodic resync is off: repairs must be triggered by events. The printed seed repeats the choices, not the
timing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neutrino.lab.errors import LabError, wait_until
from qa.bench.workbench import progress
from qa.faults.cloud_changes import Changes, Step
from qa.faults.cloud_model import OUTSIDE
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_faults import feed_process
from tests.support.routing_lab import EXTERNAL, MACHINE

OPTIONS = """[DEFAULT]
agent_mode = dvr_snat
dhcp_distributed = {distributed}
[agent]
enable_distributed_routing = true
check_interval = 3600
repair_interval = 3600
[securitygroup]
firewall_driver = {firewall}
"""
SETTLE_SECONDS = 90.0  # keepalived takes some; the rest is for a busy machine
DAEMONS = ("dnsmasq", "keepalived", "radvd", "metadata --socket")
LEASE = ["udhcpc", "-f", "-n", "-q", "-i", "eth0", "-t", "3", "-T", "1", "-s", "/bin/true"]
METADATA = "169.254.169.254"
LEFT = ("qrouter-", "qdhcp-", "snat-", "fip-")


class Chaos:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.rng = random.Random(seed)
        self.changes = Changes(lab, self.rng)
        self.cloud = self.changes.cloud
        self.faults: list[Step] = [
            *(self.kill_agent, self.kill_agent, self.kill_switch, self.kill_server, self.kill_feed, self.kill_daemon),
            *(self.change_without_agent, self.lose_host),
        ]

    def run(self, rounds: int) -> None:
        for _ in range(30):  # something to start with
            self._do(self.changes.growth)
        self.check()
        for number in range(1, rounds + 1):
            progress(f"round {number}")
            for _ in range(self.rng.randrange(4, 10)):
                self._do(self.faults if self.rng.random() < 0.3 else self.changes.all)
            self.check()
        progress("everything is deleted")
        self.changes.delete_everything()
        wait_until(lambda: not self.left(), SETTLE_SECONDS, "something is left on the hosts")
        progress("nothing is left")

    def _do(self, steps: list[Step]) -> None:
        if text := self.rng.choice(steps)():
            progress(f"  {text}")

    # --- faults -----------------------------------------------------------------------------------------------------

    def kill_agent(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host, kill=True)
        self.lab.start_agent(host, wait=False)
        return f"agent of {host} killed"

    def change_without_agent(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host)
        progress(f"  agent of {host} away")
        for _ in range(3):
            self._do(self.changes.all)
        self.lab.start_agent(host, wait=False)
        return f"agent of {host} back"

    def kill_switch(self) -> str:
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_ovs(host, kill=True, database=False)
        self.lab.start_ovs(host)
        return f"switch of {host} killed"

    def lose_host(self) -> str:
        """Agent, switch and all daemons, for long enough that other hosts take over."""
        host = self.rng.choice(self.lab.hosts)
        self.lab.stop_agent(host, kill=True)
        self.lab.stop_ovs(host, kill=True)
        for name in DAEMONS:
            self._kill(host, name)
        time.sleep(self.rng.uniform(0, 6))
        self.lab.start_ovs(host)
        self.lab.start_agent(host, wait=False)
        return f"{host} lost for a while"

    def kill_server(self) -> str:
        self.lab.stop_server(kill=True)
        self.lab.start_server()
        return "server killed"

    def kill_feed(self) -> str:
        with contextlib.suppress(LookupError, ProcessLookupError):
            os.kill(feed_process(self.lab), signal.SIGKILL)
        return "feed killed"

    def kill_daemon(self) -> str | None:
        host, name = self.rng.choice(self.lab.hosts), self.rng.choice(DAEMONS)
        killed = self._kill(host, name)
        return f"{name} of {host} killed: {killed}" if killed else None

    def _kill(self, host: str, name: str) -> int:
        pattern = f"{name}.*{self.lab.paths.host(host)}"
        pids = self.lab.run(host, ["pgrep", "-f", pattern], check=False).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return len(pids)

    # --- expected results ------------------------------------------------------------------------------------------

    def check(self) -> None:
        began = time.monotonic()
        wrong: list[str] = ["nothing was looked at"]
        while wrong:
            wrong = self._wrong()
            if wrong and time.monotonic() - began > SETTLE_SECONDS:
                raise LabError("actual and desired state differ:\n  " + "\n  ".join(wrong))
        text = f"{len(self.cloud.machines)} machines, {len(self.cloud.routers)} routers"
        progress(f"converged after {time.monotonic() - began:.1f} s: {text}, {len(self.cloud.floating)} floating IPs")

    def _wrong(self) -> list[str]:
        """All differences, the quick checks first."""
        return self._statuses() or self._ways() or self._leases() or self._identities() or self._drift()

    def _statuses(self) -> list[str]:
        ports = {port["id"]: port["status"] for port in self.lab.api.list("port")}
        wrong = [
            f"{machine.name} is {ports[machine.port_id]}"
            for machine in self.cloud.machines.values()
            if (ports[machine.port_id] == "ACTIVE") != machine.up
        ]
        for made in self.lab.api.list("floatingip"):
            floating = self.cloud.floating[made["id"]]
            wanted = "ACTIVE" if floating.machine is not None else "DOWN"
            router = self.cloud.router_of(self.cloud.machines[floating.machine].net) if floating.machine else None
            if made["status"] != wanted and (router is None or router.up):
                wrong.append(f"{floating.address} of {floating.machine} is {made['status']}")
        return wrong

    def _ways(self) -> list[str]:
        wanted = self.cloud.ways(MACHINE)
        sources = sorted({source for source, _ in wanted})
        asking = {
            source: self.lab.popen(
                EXTERNAL if source == OUTSIDE else source,
                ["sh", "-c", ASK, "ask", *sorted(target for one, target in wanted if one == source)],
            )
            for source in sources
        }
        reached = {(source, line) for source, one in asking.items() for line in one.communicate()[0].split()}
        return [
            f"{source} {'does not reach' if way else 'reaches'} {target}"
            for (source, target), way in sorted(wanted.items())
            if ((source, target) in reached) != way
        ]

    def _leases(self) -> list[str]:
        """Each machine requests a lease without configuring it."""
        up = [machine for machine in self.cloud.machines.values() if machine.up]
        asking = {machine.name: self.lab.popen(machine.name, LEASE, stderr=subprocess.STDOUT) for machine in up}
        output = {name: one.communicate()[0] for name, one in asking.items()}
        return [
            f"{machine.name} gets no lease: {output[machine.name].strip()}"
            for machine in up
            if not any(f"lease of {address} obtained" in output[machine.name] for address in machine.addresses)
        ]

    def _identities(self) -> list[str]:
        url = f"http://{METADATA}/latest/meta-data/instance-id"
        asking = {
            machine.name: self.lab.popen(machine.name, ["curl", "-s", "-m", "3", url])
            for machine in self.cloud.asking()
        }
        output = {name: one.communicate()[0] for name, one in asking.items()}
        return [
            f"{name} receives the identity {identity!r}"
            for name, identity in output.items()
            if identity != self.cloud.machines[name].device_id
        ]

    def _drift(self) -> list[str]:
        verifying = {host: self.lab.popen(host, self.lab.agent_command(host, "verify")) for host in self.lab.hosts}
        verified = {host: (one.communicate()[0], one.returncode) for host, one in verifying.items()}
        return [f"{host}: {text.strip()}" for host, (text, status) in verified.items() if status != 0]

    def left(self) -> list[str]:
        lines = [line for host in self.lab.hosts for line in self.lab.run(host, ["ip", "netns"]).stdout.splitlines()]
        return [line for line in lines if line.startswith(LEFT)]


ASK = 'for to in "$@"; do (ping -n -c 1 -W 1 "$to" >/dev/null 2>&1 && echo "$to") & done; wait'


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--firewall", choices=("openvswitch", "iptables_hybrid"), default="openvswitch")
    parser.add_argument("--distributed-dhcp", action="store_true")
    parser.add_argument("--keep", metavar="DIR", help="copy the logs there when something is wrong")
    args = parser.parse_args(argv)
    progress(f"seed {args.seed}, {args.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="neutrino-chaos-") as directory:
        options = Path(directory) / "agent.conf"
        options.write_text(OPTIONS.format(firewall=args.firewall, distributed=args.distributed_dhcp))
        roles = ("l2", "dhcp", "l3", "metadata")
        with temporary_lab(hosts=args.hosts, roles=roles, agent_config_files=(str(options),)) as lab:
            try:
                Chaos(lab, args.seed).run(args.rounds)
            except LabError as error:
                progress(str(error))
                if args.keep:
                    _keep_logs(lab, Path(args.keep))
                return 1
    return 0


def _keep_logs(lab: Lab, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for path in lab.paths.state.rglob("*.log"):
        (where / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
