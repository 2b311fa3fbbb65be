"""The gateways of a router: which ones a request asks for, and the writes that lead there.

A router has any number of gateway ports, on one or several external networks. The first one is `external_gateway_info`
(`gw_port_id` and `gw_network_id` of its row), the others are listed in `extra_gw_port_ids`. All are changed under the
revision of the router, so that concurrent requests do not lose each other's gateways.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    RouterExternalGatewayInUseByFloatingIp,
    UnableToMatchGateways,
    UnableToRemoveGateways,
)
from neutrino.features.router.resources import MAX_GATEWAYS
from neutrino.features.router.routers.port_layout import PortTarget, RouterPort, central_host
from neutrino.features.router.routers.router_ports import RouterPorts, read_agents
from neutrino.features.router.routers.rules import check_overlap, check_routes, refuse
from neutrino.features.router.scheduling.scheduler import L3Scheduler
from neutrino.features.router.tables import floatingips
from neutrino.model.device_owners import GATEWAY
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db.objects import exists
from neutrino.server.db.reads import read_together
from neutrino.server.ml2.operations import Writes
from neutrino.server.ml2.views import subnets_of
from neutrino.server.uses import RouterUse

Info = Values  # an `external_gateway_info`


@dataclass(frozen=True)
class GatewayRequest:
    """The checked `external_gateway_info` of a request; without a network: no gateway."""

    network_id: str | None
    network: Object | None = None
    subnets: Sequence[Object] = ()
    fixed_ips: Sequence[Values] = ()
    enable_snat: bool = True
    qos_policy_id: str | None = None

    @property
    def router_values(self) -> Object:
        """The columns of the router, but for the gateway port's id."""
        return {
            "gw_network_id": self.network_id,
            "enable_snat": self.enable_snat,
            "gw_qos_policy_id": self.qos_policy_id,
        }


@dataclass(frozen=True)
class Decision:
    """A router after a request, the addresses of its first gateway, and the writes of its ports and agents."""

    router: Object
    gateway_ips: Sequence[Object]
    writes: Writes = ()


@dataclass(frozen=True)
class Wanted:
    """A gateway that a router is to have: an existing port, a new one as `info` asks, or an existing one changed so."""

    port: RouterPort | None
    info: Info | None = None

    @property
    def network_id(self) -> str:
        if self.port is not None:
            return self.port.network_id
        assert self.info is not None, "a new gateway is asked for"
        return str(self.info["network_id"])


# --- what a request asks for. Pure. -----------------------------------------------------------------------------------


def gateway_ports(router: Values, ports: Sequence[RouterPort]) -> list[RouterPort]:
    """The gateway ports of a router, the first gateway first."""
    by_id = {port.id: port for port in ports}
    ids = [router["gw_port_id"], *router["extra_gw_port_ids"]]
    return [by_id[port_id] for port_id in ids if port_id in by_id]


def with_first(current: Sequence[RouterPort], info: Info | None) -> list[Wanted]:
    """Another `external_gateway_info`; without one, the next gateway becomes the first."""
    others = [Wanted(port) for port in current[1:]]
    if not info:
        return others
    same = current[:1] if current and current[0].network_id == info["network_id"] else [None]
    return [Wanted(same[0], info), *others]


def with_added(router_id: str, current: Sequence[RouterPort], infos: Sequence[Info]) -> list[Wanted]:
    return [*map(Wanted, current), *(Wanted(None, info) for info in infos)]


def with_removed(router_id: str, current: Sequence[RouterPort], infos: Sequence[Info]) -> list[Wanted]:
    if infos and not current:
        raise UnableToRemoveGateways(router_id=router_id, reason="the router has no gateway")
    gone = set()
    for info in infos:
        port = match(router_id, current, info)
        if port is None:
            raise _unmatched(router_id, info)
        gone.add(port.id)
    return [Wanted(port) for port in current if port.id not in gone]


def with_replaced(router_id: str, current: Sequence[RouterPort], infos: Sequence[Info]) -> list[Wanted]:
    """These gateways alone: those that match an existing port keep it."""
    wanted: list[Wanted] = []
    for info in infos:
        port = match(router_id, current, info)
        taken = {gateway.port.id for gateway in wanted if gateway.port is not None}
        wanted.append(Wanted(None if port is not None and port.id in taken else port, info))
    first = wanted[0] if wanted else None
    kept = {gateway.port.id for gateway in wanted if gateway.port is not None}
    if first is not None and first.port is None and current and current[0].id not in kept:
        # Other addresses on the same network: the first gateway keeps its port, as with `external_gateway_info`.
        same = current[0].network_id == first.network_id
        wanted[0] = Wanted(current[0] if same else None, first.info)
    return wanted


def match(router_id: str, current: Sequence[RouterPort], info: Info) -> RouterPort | None:
    """The port that `info` means: on its network, with one of its addresses; alone there, it needs none."""
    on_network = [port for port in current if port.network_id == info["network_id"]]
    fixed = info.get("external_fixed_ips") or ()
    if fixed:
        return next((port for port in on_network if any(_has(port, address) for address in fixed)), None)
    if len(on_network) > 1:
        reason = f"the router has several on network {info['network_id']}: external_fixed_ips has to say which is meant"
        raise UnableToMatchGateways(router_id=router_id, reason=reason)
    return on_network[0] if on_network else None


def _has(port: RouterPort, fixed: Values) -> bool:
    """Whether the port has the address, or an address on the subnet where only that is named."""
    if "ip_address" in fixed:
        return any(address.ip_address == fixed["ip_address"] for address in port.addresses)
    return fixed.get("subnet_id") in port.subnet_ids


def _unmatched(router_id: str, info: Info) -> errors.ApiError:
    given = [address.get("ip_address") or address.get("subnet_id") for address in info.get("external_fixed_ips") or ()]
    which = f"none on network {info['network_id']}" + (f" with {', '.join(map(str, given))}" if given else "")
    return UnableToMatchGateways(router_id=router_id, reason=f"the router has {which}")


# --- how it gets there ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gateways:
    ports: RouterPorts
    scheduler: L3Scheduler
    enable_snat: bool  # by default
    uses: Sequence[RouterUse]  # by features

    def request(
        self, connection: Connection, context: Context, info: Info | None, old_policy: str | None = None
    ) -> GatewayRequest:
        """The checked `external_gateway_info` of a request. A QoS policy that it does not name stays as it was."""
        if not info:
            return GatewayRequest(None, enable_snat=self.enable_snat)
        network_id, fixed = info["network_id"], info.get("external_fixed_ips") or ()
        readings = self.ports.networks.reading_external(context, network_id, "router")
        network, subnets = read_together(connection, *readings)
        gateways = {subnet["gateway_ip"] for subnet in subnets} - {None}
        for address in fixed:
            if address.get("ip_address") in gateways:
                raise refuse(f"{address['ip_address']} is the gateway of the external network itself")
        policy = info.get("qos_policy_id", old_policy)
        for use in self.uses:
            use.check_values(connection, context, {"qos_policy_id": old_policy}, {"qos_policy_id": policy})
        snat = info.get("enable_snat", self.enable_snat)
        return GatewayRequest(network_id, network, subnets, fixed, snat, policy)

    def decide(
        self,
        connection: Connection,
        context: Context,
        before: Object,
        after: Object,
        ports: Sequence[RouterPort],
        wanted: Sequence[Wanted],
    ) -> Decision:
        """From the gateways of `before` to the wanted ones; `after` has the request's other changes of the router."""
        if len(wanted) > MAX_GATEWAYS:
            raise refuse(f"external_gateways: a router has at most {MAX_GATEWAYS}")
        requests = [self._request(connection, context, before, i, gateway) for i, gateway in enumerate(wanted)]
        kept = {gateway.port.id for gateway in wanted if gateway.port is not None}
        removed = [port for port in gateway_ports(before, ports) if port.id not in kept]
        _check(connection, after, ports, wanted, removed)
        after = {**after, **self._columns(before, wanted, requests)}
        staying = [port for port in ports if port not in removed]
        writes, host = self._placed(connection, before, after, staying)
        created: Writes = ()
        others: Writes = ()
        shown: list[Sequence[Object]] = []
        ids: list[str] = []
        for gateway, request in zip(wanted, requests, strict=True):
            port_writes, port_id, fixed_ips = self._port(connection, before, gateway, request, host)
            if gateway.port is None:
                created += port_writes
            else:
                others += port_writes
            ids.append(port_id)
            shown.append(fixed_ips)
        for port in removed:
            others += self.ports.delete(connection, port.id)[0]
        after |= {"gw_port_id": ids[0] if ids else None, "extra_gw_port_ids": ids[1:]}
        # Created ports come first: if a mechanism driver fails, the first write decides whether creates are taken back.
        return Decision(after, shown[0] if shown else (), created + others + writes)

    def _request(
        self, connection: Connection, context: Context, before: Object, index: int, wanted: Wanted
    ) -> GatewayRequest | None:
        if wanted.info is None:
            return None
        stays_first = index == 0 and wanted.port is not None and wanted.port.id == before["gw_port_id"]
        # A QoS policy is of the first gateway alone.
        info = wanted.info if index == 0 else {k: v for k, v in wanted.info.items() if k != "qos_policy_id"}
        return self.request(connection, context, info, before["gw_qos_policy_id"] if stays_first else None)

    def _columns(self, before: Object, wanted: Sequence[Wanted], requests: Sequence[GatewayRequest | None]) -> Object:
        """The columns of a router that its first gateway decides."""
        if not wanted:
            return GatewayRequest(None, enable_snat=self.enable_snat).router_values
        if requests[0] is not None:
            return requests[0].router_values
        port = wanted[0].port
        if port is None or port.id == before["gw_port_id"]:
            return {}
        return {"gw_network_id": port.network_id, "gw_qos_policy_id": None}

    def _placed(
        self, connection: Connection, before: Object, after: Object, staying: Sequence[RouterPort]
    ) -> tuple[Writes, str]:
        """The agents of the router, which its first gateway may make necessary; and the host of its gateways."""
        has_gateway = after["gw_network_id"] is not None
        needed = after["ha"] or has_gateway or any(port.is_interface for port in staying)
        assigned = self.scheduler.assign(connection, after, read_agents(connection, after["id"]), needed=needed)
        writes = assigned.writes
        if has_gateway != (before["gw_network_id"] is not None):
            writes += self.ports.reconcile(connection, after, staying, assigned.agents)
        current = next((port.host for port in staying if port.host), "")
        return writes, central_host(assigned.agents, current)

    def _port(
        self, connection: Connection, router: Object, wanted: Wanted, request: GatewayRequest | None, host: str
    ) -> tuple[Writes, str, Sequence[Object]]:
        """The writes of one gateway, its port and its addresses."""
        port = wanted.port
        if port is None:
            assert request is not None, "a new gateway is asked for"
            target, fixed_ips = PortTarget(GATEWAY, host), request.fixed_ips or None
            network, subnets = request.network, request.subnets
            writes, new = self.ports.create(
                connection, router, wanted.network_id, target, fixed_ips, network=network, subnets=subnets
            )
            return writes, new["id"], new["fixed_ips"]
        addresses: Sequence[Object] = [address.fixed_ip for address in port.addresses]
        if request is None or not request.fixed_ips:
            return (), port.id, addresses
        writes = self.ports.readdress(connection, port.id, request.fixed_ips)
        return writes, port.id, writes[0].context.current["fixed_ips"] if writes else addresses


def _check(
    connection: Connection,
    router: Object,
    ports: Sequence[RouterPort],
    wanted: Sequence[Wanted],
    removed: Sequence[RouterPort],
) -> None:
    """Refuse what would cut off floating IPs or routes, and external networks that overlap with others of the router."""
    networks = {gateway.network_id for gateway in wanted}
    for network_id in sorted({port.network_id for port in removed} - networks):
        check_unused(connection, router["id"], network_id)
    subnets = subnets_of(connection, sorted(networks)) if networks else {}
    inside = [port for port in ports if port.type != GATEWAY]
    known = {port.network_id for port in ports if port.type == GATEWAY}
    for network_id in sorted(networks - known):
        others = [subnet for other in networks - {network_id} for subnet in subnets[other]]
        check_overlap(inside, subnets[network_id], others)
    if router["routes"]:
        cidrs = [a.cidr for port in inside for a in port.addresses]
        cidrs += [subnet["cidr"] for several in subnets.values() for subnet in several]
        check_routes(router["routes"], cidrs, [a.ip_address for port in inside for a in port.addresses])


def check_unused(connection: Connection, router_id: str, network_id: str) -> None:
    """Refuse to remove the last gateway on a network whose floating IPs the router serves."""
    if exists(connection, floatingips.c.router_id == router_id, floatingips.c.floating_network_id == network_id):
        raise RouterExternalGatewayInUseByFloatingIp(router_id=router_id, net_id=network_id)
