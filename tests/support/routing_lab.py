"""Routers in a lab: an external network, routers with their networks, and connections with the source that the server sees.

out = external_network(lab)
blue = tenant_network(lab, "blue", 1)
router = make_router(lab, out, blue)
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.lab import NEUTRINO
from neutrino.lab.timing import scaled
from neutrino.model.objects import Object
from tests.support.addresses import pool
from tests.support.commands import run_neutrino
from tests.support.lab_control import Lab
from tests.support.waiting import paced

EXTERNAL = "external"
MACHINE, MACHINE6 = "203.0.113.1", "2001:db8:203:113::1"
SOON = 30.0  # seconds within which a router follows, on a machine that is busy
FRAMES = scaled(1.0)  # seconds after which a packet counts as lost
PATIENCE = scaled(10.0)  # seconds for a packet that must arrive: a busy machine may deliver it late
L3_AGENT = "L3 agent"
INTERFACES = (
    "network:router_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
)


# --- resources --------------------------------------------------------------------------------------------------------


def external_network(lab: Lab, name: str = "outside") -> Object:
    """The network of the machine `external`, in both versions; its ports get 203.0.113.10 and on."""
    provider = {"provider:network_type": "flat", "provider:physical_network": "external"}
    made = lab.api.create("network", name=name, **provider, **{"router:external": True})
    four = {"cidr": "203.0.113.0/24", "gateway_ip": MACHINE, "ip_version": 4}
    pool = [{"start": "203.0.113.10", "end": "203.0.113.250"}]
    lab.api.create("subnet", network_id=made["id"], enable_dhcp=False, allocation_pools=pool, **four)
    six = {"cidr": "2001:db8:203:113::/64", "gateway_ip": MACHINE6, "ip_version": 6}
    lab.api.create("subnet", network_id=made["id"], enable_dhcp=False, **six)
    return made


def tenant_network(lab: Lab, name: str, number: int, *, six: bool = True, **attributes: Any) -> Object:
    """A network with 10.0.N.0/24 and fd00:N::/64, the last addresses free; the object has its subnets as `by_version`."""
    made = lab.api.create("network", name=name, **attributes)
    four = {"cidr": f"10.0.{number}.0/24", "ip_version": 4, **pool(f"10.0.{number}.0/24")}
    subnets = {4: lab.api.create("subnet", network_id=made["id"], **four)}
    if six:
        subnets[6] = lab.api.create("subnet", network_id=made["id"], cidr=f"fd00:{number}::/64", ip_version=6)
    return {**made, "by_version": subnets}


def make_router(lab: Lab, out: Object | None, *networks: Object, **attributes: Any) -> Object:
    """With a gateway on `out`, if given, and an interface on every subnet of the networks."""
    gateway = {"external_gateway_info": {"network_id": out["id"]}} if out is not None else {}
    router = lab.api.create("router", **{"name": "router", **gateway, **attributes})
    for network in networks:
        for subnet in network["by_version"].values():
            attach(lab, router, subnet)
    return router


def attach(lab: Lab, router: Object, subnet: Object) -> Object:
    return lab.api.request("PUT", f"/v2.0/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})


def detach(lab: Lab, router: Object, subnet: Object) -> Object:
    return lab.api.request("PUT", f"/v2.0/routers/{router['id']}/remove_router_interface", {"subnet_id": subnet["id"]})


def delete_router(lab: Lab, router_id: str) -> None:
    lab.api.update("router", router_id, routes=[])
    for port in lab.api.list("port", device_id=router_id):
        if port["device_owner"] in INTERFACES:
            body = {"port_id": port["id"]}
            lab.api.request("PUT", f"/v2.0/routers/{router_id}/remove_router_interface", body)
    lab.api.delete("router", router_id)


def floating_ip(lab: Lab, out: Object, port_id: str | None = None, **values: Any) -> Object:
    made = lab.api.create("floatingip", floating_network_id=out["id"], port_id=port_id, **values)
    if port_id is not None:
        wait_for_floating_ip(lab, made["id"], "ACTIVE")
    return made


def wait_for_floating_ip(lab: Lab, key: str, status: str) -> None:
    wait_until(lambda: bool(lab.api.show("floatingip", key)["status"] == status), SOON, f"floating IP not {status}")


def gateway_address(lab: Lab, router: Object, version: int = 4) -> str:
    fixed = lab.api.show("router", router["id"])["external_gateway_info"]["external_fixed_ips"]
    return str(next(each["ip_address"] for each in fixed if (":" in each["ip_address"]) == (version == 6)))


# --- agents -----------------------------------------------------------------------------------------------------------


def l3_agent(lab: Lab, host: str) -> Object | None:
    return next(iter(lab.api.list("agent", agent_type=L3_AGENT, host=host)), None)


def hosts_of(lab: Lab, router: Object) -> dict[str, str | None]:
    """The hosts that serve a router, with the HA state that each has reported."""
    found = lab.api.request("GET", f"/v2.0/routers/{router['id']}/l3-agents")["agents"]
    return {agent["host"]: agent["ha_state"] for agent in found}


def active_host(lab: Lab, router: Object, *, among: Collection[str]) -> str:
    """The one of these hosts that reports itself active, once the others report standby."""
    states: dict[str, str | None] = {}

    def settled() -> bool:
        states.clear()
        states.update(hosts_of(lab, router))
        return sorted(str(states.get(host)) for host in among) == ["active", *["standby"] * (len(among) - 1)]

    try:
        wait_until(settled, SOON, "no single active host")
    except LabError as error:
        raise LabError(f"{error}: {states}") from error
    return next(host for host in among if states[host] == "active")


def host_of(lab: Lab, router: Object) -> str:
    (host,) = hosts_of(lab, router)
    return host


def move_router(lab: Lab, router: Object, host: str) -> None:
    old, new = l3_agent(lab, host_of(lab, router)), l3_agent(lab, host)
    assert old is not None
    assert new is not None
    lab.api.request("DELETE", f"/v2.0/agents/{old['id']}/l3-routers/{router['id']}")
    lab.api.request("POST", f"/v2.0/agents/{new['id']}/l3-routers", {"router_id": router["id"]})


def place_router(lab: Lab, router: Object, host: str) -> None:
    """Move a router unless the scheduler has chosen this host."""
    if host_of(lab, router) != host:
        move_router(lab, router, host)


def problems_of(lab: Lab) -> list[str]:
    """Problems that the hosts' L3 agents report."""
    found = (l3_agent(lab, host) for host in lab.hosts)
    return [text for agent in found if agent for text in agent["configurations"].get("problems", {}).values()]


@contextlib.contextmanager
def vrrp_blocked(hosts: Iterable[str], run: Callable[..., str]) -> Iterator[None]:
    """Drop VRRP advertisements between the hosts; `run` runs a command in the namespace of keepalived on a host."""
    several = tuple(hosts)
    chain = "add chain ip deaf in { type filter hook input priority -300; }"
    for host in several:
        for line in ("add table ip deaf", chain, "add rule ip deaf in ip protocol vrrp drop"):
            run(host, "nft", line)
    try:
        yield
    finally:
        for host in several:
            run(host, "nft", "delete table ip deaf")


@contextlib.contextmanager
def failed_host(lab: Lab, router: Object, host: str) -> Iterator[None]:
    """A host without agent, switch and keepalived: the others lose it, though its namespaces are unchanged."""
    lab.stop_agent(host, kill=True)
    lab.stop_ovs(host, kill=True)
    kill_keepalived(lab, router, host)
    try:
        yield
    finally:
        lab.start_ovs(host)
        lab.start_agent(host)


@contextlib.contextmanager
def without_ha_link(lab: Lab, router: Object, host: str) -> Iterator[None]:
    """The device of an HA router on the HA network is down on this host, where keepalived steps back.

    The agent is suspended meanwhile: it would set the device up at once, and which host is active then would be a race.
    """
    (port,) = lab.api.list(
        "port", device_id=router["id"], device_owner="network:router_ha_interface", **{"binding:host_id": host}
    )
    namespace = f"{'snat' if router['distributed'] else 'qrouter'}-{router['id']}"
    link = "ip", "netns", "exec", namespace, "ip", "link", "set", f"ha-{port['id'][:11]}"
    with lab.suspended_agent(host):
        lab.run(host, [*link, "down"])
        try:
            yield
        finally:
            lab.run(host, [*link, "up"])


def kill_keepalived(lab: Lab, router: Object, host: str) -> None:
    pids = lab.run(host, ["pgrep", "-f", f"keepalived.*{lab.paths.host(host)}.*{router['id']}"]).stdout
    lab.run(host, ["kill", "-9", *pids.split()])


def in_router(lab: Lab, router: Object, host: str, *argv: str, check: bool = True) -> str:
    """A command in the router's namespace."""
    done = lab.run(host, ["ip", "netns", "exec", f"qrouter-{router['id']}", *argv], check=check)
    return done.stdout


def remains_of(lab: Lab, router_id: str, host: str, devices: list[str]) -> list[str]:
    """State of a router on a host: its namespace, devices, ports of the switch, processes, records and files."""
    found = [f"namespace {line}" for line in lab.run(host, ["ip", "netns"]).stdout.splitlines() if router_id in line]
    links = lab.run(host, ["ip", "-o", "link"]).stdout + lab.run(host, ["ovs-vsctl", "show"]).stdout
    found += [f"device {name}" for name in devices if name in links]
    mine = str(lab.paths.host(host))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace")
            if router_id in words and mine in words:
                found.append(f"process {words}")
    return found + [
        f"{directory}/{name}"
        for directory, directories, files in os.walk(lab.paths.host(host))  # ignores files that are deleted meanwhile
        for name in (*directories, *files)
        if router_id in name
    ]


def wait_until_removed(lab: Lab, router_id: str, host: str, devices: list[str]) -> None:
    left = [""]

    def gone() -> bool:
        left[:] = remains_of(lab, router_id, host, devices)
        return not left

    try:
        wait_until(gone, SOON, f"state of router {router_id} left on {host}")
    except LabError as error:
        raise LabError(f"{error}: {left}") from None


def devices_of(lab: Lab, router: Object) -> list[str]:
    """The parts of devices' names that come from the router's ports."""
    return [port["id"][:11] for port in lab.api.list("port", device_id=router["id"])]


# --- packets ----------------------------------------------------------------------------------------------------------


def can_ping(lab: Lab, source: str, target: str, by: str | None = None) -> bool:
    """`by` is the source address, for a machine with several."""
    command = ["ping", "-n", "-q", "-c", "1", "-W", str(FRAMES), *(["-I", by] if by else []), target]
    return lab.run(source, command, check=False).returncode == 0


def reaches(lab: Lab, source: str, target: str) -> bool:
    """Whether a ping is answered: for assertions that it is, which end with the first answer."""
    command = ["ping", "-n", "-q", "-c", "1", "-i", "0.5", "-w", str(round(PATIENCE)), target]
    return lab.run(source, command, check=False).returncode == 0


def wait_until_reachable(lab: Lab, source: str, target: str, timeout: float = SOON, by: str | None = None) -> float:
    return wait_until(lambda: can_ping(lab, source, target, by), timeout, f"{source} does not reach {target}")


def wait_until_unreachable(lab: Lab, source: str, target: str, timeout: float = SOON) -> float:
    return wait_until(lambda: not can_ping(lab, source, target), timeout, f"{source} still reaches {target}")


def connect(
    lab: Lab,
    client: str,
    server: str,
    target: str,
    number: int = 8080,
    at: int | None = None,
    seconds: float = PATIENCE,
) -> TcpConnection:
    """A TCP connection to `target`, which should lead to `server`, there to port `at` (else the same); or an OSError."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def listen() -> socket.socket:
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", at or number))
        listener.listen()
        return listener

    def call() -> socket.socket:
        return socket.create_connection((target, number), seconds)

    with lab.inside(server, listen) as listener:
        calling = lab.inside(client, call)
        try:
            listener.settimeout(seconds)
            answering, peer = listener.accept()
        except BaseException:
            calling.close()
            raise
    return TcpConnection(calling, answering, str(peer[0]))


class TcpConnection:
    """A connection with both its ends here; `peer` is the client's address as the server sees it."""

    def __init__(self, client: socket.socket, server: socket.socket, peer: str) -> None:
        self.client, self.server, self.peer = client, server, peer

    def __enter__(self) -> TcpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.server.close()

    def passes_data(self, timeout: float = FRAMES) -> bool:
        """Whether data passes in both directions."""
        return one_way(self.client, self.server, timeout) and one_way(self.server, self.client, timeout)


def one_way(sender: socket.socket, receiver: socket.socket, timeout: float) -> bool:
    """Whether data passes in one direction; the receiver has nothing to send but acknowledgements."""
    word, received = secrets.token_bytes(8), b""
    try:
        sender.settimeout(timeout)
        sender.sendall(word)
        receiver.settimeout(timeout)
        while word not in received:
            part = receiver.recv(4096)
            if not part:
                return False
            received += part
    except OSError:
        return False
    return True


def source_seen(lab: Lab, client: str, server: str, target: str, number: int = 8080, at: int | None = None) -> str:
    """The client's address as the server sees it, once they can connect."""
    seen: list[str] = []

    def connected() -> bool:
        try:
            with connect(lab, client, server, target, number, at, 3 * FRAMES) as talk:
                seen.append(talk.peer)
        except OSError:
            return False
        return True

    wait_until(connected, SOON, f"{client} cannot connect to {target} port {number} at {server}")
    return seen[-1]


def can_connect(lab: Lab, client: str, server: str, target: str, number: int = 8080, at: int | None = None) -> bool:
    try:
        connect(lab, client, server, target, number, at, 3 * FRAMES).__exit__()
    except OSError:
        return False
    return True


def udp_source_seen(lab: Lab, client: str, server: str, target: str, number: int, at: int) -> str | None:
    """The source that the server sees of a datagram to `target`, if it and the answer arrive."""
    word = secrets.token_bytes(8)

    def bound() -> socket.socket:
        listener = socket.socket(type=socket.SOCK_DGRAM)
        listener.bind(("", at))
        return listener

    listener = lab.inside(server, bound)
    calling = lab.inside(client, lambda: socket.socket(type=socket.SOCK_DGRAM))
    with listener, calling:
        for end in (listener, calling):
            end.settimeout(FRAMES)
        try:
            calling.sendto(word, (target, number))
            received, peer = listener.recvfrom(100)
            listener.sendto(word, peer)
            back, sender = calling.recvfrom(100)
        except OSError:
            return None
    return str(peer[0]) if received == back == word and sender == (target, number) else None


# --- verify ----------------------------------------------------------------------------------------------------------


def drift_on(lab: Lab, host: str) -> str:
    """The output of `neutrino agent verify`; empty without drift."""
    argv = lab.agent_command(host, "verify")[len(NEUTRINO) :]
    # Labs ask some hundred times: a new process would load the agent's code each time.
    done = run_neutrino(argv, environment=lab.processes.environment(), inside=lab.holder(host))
    return "" if done.status == 0 else done.out + done.error


def wait_until_no_drift(lab: Lab, host: str) -> None:
    found = [""]

    def right() -> bool:
        found[0] = drift_on(lab, host)
        return not found[0]

    try:
        wait_until(paced(right), SOON, f"{host} has drift")
    except LabError as error:
        raise LabError(f"{error}: {found[0]}") from None


def addresses_in(lab: Lab, router: Object, host: str) -> dict[str, set[str]]:
    """The addresses of global scope in the router's namespace, by device."""
    shown = json.loads(in_router(lab, router, host, "ip", "-j", "address"))
    return {each["ifname"]: {a["local"] for a in each.get("addr_info", ()) if a["scope"] == "global"} for each in shown}
