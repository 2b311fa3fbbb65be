"""QoS in a lab: policies through the API, and what iperf3 measures between instances."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.timing import Deadline, scaled
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, Guest

ATTEMPTS = 8  # of a measurement: the machine is shared, and a slow moment is not the limit's fault
_METER = re.compile(r"meter=(\d+) (pktps|kbps) burst bands=\s*type=drop rate=(\d+) burst_size=(\d+)")


class Policy:
    """A QoS policy; `set(bandwidth_limit={...})` adds or updates its only rule of that type and direction."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self.id = str(lab.api.request("POST", "/v2.0/qos/policies", {"policy": {"name": name}})["policy"]["id"])
        self._rules: dict[tuple[str, str], str] = {}

    def set(self, kind: str, **values: Any) -> None:
        path = f"/v2.0/qos/policies/{self.id}/{kind}_rules"
        key = kind, str(values.get("direction", ""))
        method = "PUT" if key in self._rules else "POST"
        path += f"/{self._rules[key]}" if key in self._rules else ""
        rule: Object = self._lab.api.request(method, path, {f"{kind}_rule": values})[f"{kind}_rule"]
        self._rules[key] = rule["id"]

    def clear(self) -> None:
        """Delete all rules."""
        for (kind, _), rule in self._rules.items():
            self._lab.api.request("DELETE", f"/v2.0/qos/policies/{self.id}/{kind}_rules/{rule}")
        self._rules.clear()

    def delete(self) -> None:
        self._lab.api.request("DELETE", f"/v2.0/qos/policies/{self.id}")


def limited_policy(lab: Lab, name: str, *, ingress: int, egress: int) -> Object:
    """A policy with a bandwidth limit in each direction."""
    made: Object = lab.api.request("POST", "/v2.0/qos/policies", {"policy": {"name": name}})["policy"]
    for direction, rate in (("ingress", ingress), ("egress", egress)):
        rule = {"bandwidth_limit_rule": {"max_kbps": rate, "direction": direction}}
        lab.api.request("POST", f"/v2.0/qos/policies/{made['id']}/bandwidth_limit_rules", rule)
    return made


def meters(lab: Lab, host: str) -> dict[int, tuple[str, int, int]]:
    """The meters of a host's integration bridge by id: unit, rate, burst."""
    shown = lab.run(host, ["ovs-ofctl", "-O", "OpenFlow14", "dump-meters", "br-int"]).stdout
    return {int(number): (unit, int(rate), int(burst)) for number, unit, rate, burst in _METER.findall(shown)}


def queues(lab: Lab, host: str, device: str) -> dict[int, dict[str, str]]:
    """The queues of a device in OVSDB: number to settings."""
    shown = lab.run(host, ["ovs-vsctl", "--if-exists", "get", "Port", device, "qos"]).stdout.strip()
    if shown in ("", "[]"):
        return {}
    # A row may be deleted meanwhile.
    rows = lab.run(host, ["ovs-vsctl", "--if-exists", "get", "QoS", shown, "queues"]).stdout
    found = {}
    for number, row in re.findall(r"(\d+)=([0-9a-f-]{36})", rows):
        text = lab.run(host, ["ovs-vsctl", "--if-exists", "get", "Queue", row, "other_config"]).stdout
        found[int(number)] = dict(re.findall(r'([\w-]+)="?(\d+)"?', text))
    return found


def classes(lab: Lab, host: str, device: str) -> str:
    return lab.run(host, ["tc", "class", "show", "dev", device]).stdout


def filters(lab: Lab, host: str, device: str) -> str:
    return lab.run(host, ["tc", "filter", "show", "dev", device], check=False).stdout


@dataclasses.dataclass
class Stream:
    """A running measurement from one instance to another."""

    server: subprocess.Popen[str]
    client: subprocess.Popen[str]

    def result(self) -> Object:
        text, errors = self.client.communicate(timeout=scaled(60))
        try:
            self.server.communicate(timeout=scaled(10))
        except subprocess.TimeoutExpired:  # the client has not reached it
            self.server.kill()
            self.server.communicate()
        try:
            found: Object = json.loads(text)
        except ValueError:
            raise LabError(f"iperf3 printed {text!r} {errors!r}") from None
        if "error" in found:
            raise LabError(f"iperf3: {found['error']}")
        return found

    def mbits(self) -> float:
        """Megabits per second that arrived."""
        return float(_received(self.result())["bits_per_second"]) / 1e6

    def datagrams(self, length: int) -> float:
        """Datagrams of this length per second that arrived; iperf3's own counters include the time that it omits."""
        return self.mbits() * 1e6 / 8 / length


def _received(found: Object) -> Object:
    end = found["end"]
    received: Object = end["sum_received"] if end.get("sum_received", {}).get("bytes") else end["sum"]
    return received


def stream(
    source: Guest, target: Guest, *options: str, seconds: float = 2, version: int = 4, port: int = 5201
) -> Stream:
    """Start a TCP stream, or with `-u -b RATE` of UDP. The first second is not measured: it has the burst of a limit."""
    lab = source.lab
    server = lab.popen(target.name, ["iperf3", "-s", "-1", "-p", str(port)], stderr=subprocess.STDOUT)
    _wait_listening(target, port)
    argv = [
        "iperf3",
        "-c",
        target.addresses[version],
        "-p",
        str(port),
        "--json",
        "-O",
        "1",
        "-t",
        str(seconds),
        *options,
    ]
    return Stream(server, lab.popen(source.name, argv, stderr=subprocess.PIPE))


def _wait_listening(guest: Guest, port: int) -> None:
    deadline = Deadline(scaled(30))
    while f":{port} " not in guest.lab.run(guest.name, ["ss", "-Hltn"]).stdout:
        assert not deadline.has_passed(), f"iperf3 does not listen in {guest.name}"
        time.sleep(0.02)


def routed_rate(lab: Lab, client: str, server: str, target: str, *options: str) -> float:
    """kbit/s of payload that arrive in two seconds, after one in which the bucket is emptied.

    By namespaces instead of instances: one end may be outside, and the target an address that is translated.
    """
    pidfile = lab.paths.host("h1") / "iperf3.pid"
    lab.run(server, ["iperf3", "-s", "-1", "-D", "-I", str(pidfile)])
    # The command returns before the daemon listens.
    wait_until(lambda: ":5201 " in lab.run(server, ["ss", "-Hltn"]).stdout, SOON, "iperf3 does not listen")
    command = [
        "iperf3",
        "-c",
        target,
        "-J",
        "-O",
        "1",
        "-t",
        "2",
        "--connect-timeout",
        str(int(scaled(3) * 1000)),
        *options,
    ]
    done = lab.run(client, command, check=False)
    if done.returncode:
        lab.run(server, ["kill", pidfile.read_text().strip("\0\n")], check=False)
        raise LabError(f"iperf3 {' '.join(command)}: {done.stdout}{done.stderr}")
    end = json.loads(done.stdout)["end"]
    if "-u" not in options:
        return float(end["sum_received"]["bits_per_second"]) / 1000
    whole: Object = end["sum"]
    arrived = 1 - float(whole["lost_percent"]) / 100
    return float(whole["bits_per_second"]) * arrived / 1000


def udp(kbps: int) -> tuple[str, ...]:
    return ("-u", "-b", f"{2 * kbps}k", "-l", "1200")


def about(measure: Callable[[], float], expected: float, tolerance: float = 0.1) -> None:
    """The measured value is within the tolerance; repeated a few times, as other work on the machine disturbs it."""
    found: list[float | str] = []
    for _ in range(ATTEMPTS):
        try:
            measured = measure()
        except LabError as error:
            found.append(str(error))
            continue
        found.append(round(measured, 2))
        if abs(measured - expected) <= tolerance * expected:
            return
    raise AssertionError(f"measured {found}, expected {expected}")
