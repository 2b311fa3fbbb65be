"""Distribution of networks over hosts: many networks of ordinary size, and one on every host. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

PORTS = 20  # per host


@dataclass(frozen=True)
class Sizes:
    hosts: int = 5000
    ports: int = 100  # per network
    spread: tuple[int, int] = (10, 50)  # number of hosts per network, minimum and maximum
    processes: int = 2  # number of simulating processes
    full: int = 20  # hosts with the agent's client, whose objects are compared with the database
    stuck: int = 50  # hosts that stop reading
    interval: float = 30.0  # seconds between a host's reports
    new_ports: int = 60  # measured one after the other
    requests: int = 100  # of each kind measured on the empty and on the full system
    idle: float = 60.0  # seconds with periodic reports only

    @property
    def networks(self) -> int:
        """Of ordinary size, besides the one that is everywhere."""
        return (PORTS - 1) * self.hosts // self.ports

    @property
    def all_ports(self) -> int:
        return self.networks * self.ports + self.hosts


QUICK = Sizes(hosts=100, ports=50, spread=(5, 15), full=4, stuck=5, interval=5.0, new_ports=20, requests=20, idle=10.0)


@dataclass(frozen=True)
class Network:
    name: str
    cidr: str
    hosts: tuple[str, ...]  # of each of its ports

    @property
    def everywhere(self) -> frozenset[str]:
        return frozenset(self.hosts)


def host_names(count: int) -> list[str]:
    return [f"h{number:04}" for number in range(1, count + 1)]


def tunneling_ip(number: int) -> str:
    return f"192.168.{number // 250}.{number % 250 + 1}"


def networks(sizes: Sizes, hosts: Sequence[str], seed: int = 1) -> list[Network]:
    """The last one is on every host, with one port on each."""
    rng = random.Random(seed)
    made = []
    for number in range(sizes.networks):
        on = rng.sample(hosts, min(rng.randint(*sizes.spread), sizes.ports, len(hosts)))
        placed = (*on, *rng.choices(on, k=sizes.ports - len(on)))
        made.append(Network(f"n{number:03}", f"10.{number % 250}.0.0/22", placed))
    return [*made, Network("everywhere", "172.16.0.0/16", tuple(hosts))]
