"""HA routers whose connections conntrackd hands over: agents with the option, and looks into its caches."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.routing_lab import SOON, active_host, failed_host, hosts_of, wait_until_no_drift, without_ha_link

ENABLED = {"DEFAULT": {"ha_conntrackd_enabled": "true"}}


@contextlib.contextmanager
def conntrackd_enabled(lab: Lab) -> Iterator[None]:
    """On all hosts; keepalived goes on with another configuration."""

    def restart(options: dict[str, dict[str, str]] | None = None) -> None:
        for host in lab.hosts:
            lab.stop_agent(host)
            lab.start_agent(host, options)
        for host in lab.hosts:
            wait_until_no_drift(lab, host)

    restart(ENABLED)
    try:
        yield
    finally:
        restart()


@dataclasses.dataclass
class HandedOver:
    """A router's connections on the hosts that it may fail over to."""

    lab: Lab
    router: Object
    hosts: Sequence[str]

    @property
    def active(self) -> str:
        return active_host(self.lab, self.router, among=self.hosts)

    def inside(self, host: str, *argv: str) -> str:
        """In the namespace that fails over."""
        namespace = f"{'snat' if self.router['distributed'] else 'qrouter'}-{self.router['id']}"
        return self.lab.run(host, ["ip", "netns", "exec", namespace, *argv], check=False).stdout

    def conntrackd(self, host: str, *argv: str) -> str:
        path = self.lab.paths.host(host) / "ha_confs" / self.router["id"] / "conntrackd.conf"
        return self.inside(host, "conntrackd", "-C", str(path), *argv)

    def wait_until_held(self, port: int, host: str, cache: str = "-e") -> None:
        """Until a cache of a host has the connection to a port: `-e` what other hosts have, `-i` its own."""
        words = "ESTABLISHED", f"dport={port} "

        def is_held() -> bool:
            return any(all(word in line for word in words) for line in self.conntrackd(host, cache).splitlines())

        wait_until(is_held, SOON, f"no connection to port {port} in cache {cache} of {host}")

    @contextlib.contextmanager
    def failed(self, *ports: int) -> Iterator[None]:
        """The active host is lost, once the others know its connections to these ports."""
        with self._taken_over(ports) as lost, failed_host(self.lab, self.router, lost):
            self._wait_until_taken_over(lost)
            yield

    @contextlib.contextmanager
    def cut_off(self, *ports: int) -> Iterator[None]:
        """The active host is cut off the HA network, by which it steps back; what else it does goes on."""
        with self._taken_over(ports) as lost:
            with without_ha_link(self.lab, self.router, lost):
                self._wait_until_taken_over(lost)
            yield

    @contextlib.contextmanager
    def _taken_over(self, ports: Sequence[int]) -> Iterator[str]:
        lost = self.active
        for host in self.hosts:
            for port in ports if host != lost else ():
                self.wait_until_held(port, host)
        yield lost
        wait_until_no_drift(self.lab, lost)

    def _wait_until_taken_over(self, lost: str) -> None:
        others = [host for host in self.hosts if host != lost]

        def is_active() -> bool:
            states = hosts_of(self.lab, self.router)
            return any(states.get(host) == "active" for host in others)

        wait_until(is_active, SOON, "no other host takes over")
