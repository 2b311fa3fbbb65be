"""High availability: the device on the HA network, on every host of an HA router."""

from neutrino.agent.l3.devices import render_device, render_plug
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import HA, device
from neutrino.dataplane.netlink.values import address
from neutrino.dataplane.nft.api import Chain, Hook, Table

_BEFORE_OTHERS = -10  # priority of a chain
_BEFORE_CONNTRACK = -310


class HighAvailability(L3Extension):
    name = "high availability"

    def render(self, namespace: RouterNamespace) -> Contribution:
        if namespace.router.ha is None:
            return Contribution(device_prefixes=(HA,))  # ha-… of a router that was HA before is deleted
        port = namespace.router.ha.interface
        name = device(HA, port.id)
        # A standby host must not send with the router's MAC, which would draw its traffic there: devices get no
        # link-local address before keepalived sets one. Addresses that keepalived sets are used without DAD: the host
        # that had them before may be lost, and is not to be waited for.
        quiet = (("addr_gen_mode", "1"), ("accept_dad", "0"))
        sysctls = {f"net/ipv6/conf/{each}/{key}": value for each in namespace.ports for key, value in quiet}
        tables = [_silence(name), _advertisements(name, namespace.router.ha.vr_id)]
        if namespace.options.ha_conntrackd_enabled:
            # By default a connection has events only if conntrackd ran when it began: the others' end would be missed.
            sysctls["net/netfilter/nf_conntrack_events"] = "1"
            tables.append(_messages(name, namespace.options.ha_conntrackd_group + namespace.router.ha.vr_id))
        return Contribution(
            tables=tuple(tables),
            devices=(render_device(name, port, namespace.options),),
            plugs=(render_plug(name, port, namespace.options),),
            host_addresses=tuple(address(name, each.prefixed, nodad=True) for each in port.addresses),
            sysctls=sysctls,
            device_prefixes=(HA,),
        )


def _silence(name: str) -> Table:
    """Drops what a device without an address sends by itself, but for the HA network's.

    A device that comes up in a namespace that forwards IPv6 reports that it has joined the group of all routers (MLD),
    without a link-local address from ::. From a host that becomes a standby such a report has the router's MAC, and all
    bridges would send the router's traffic there until the active host announces itself again, 20 seconds later.
    """
    rule = f'oifname != "{name}" ip6 saddr :: drop'
    return Table((Chain("output_standby", (rule,), Hook("filter", "output", _BEFORE_OTHERS)),), family="ip6")


def _advertisements(name: str, vr_id: int) -> Table:
    """Drops VRRP advertisements of other routers, by the id that is the second byte of each.

    The HA routers of a project share a network, and advertise to a multicast address. Without this, every keepalived is
    woken up by those of all routers, to ignore them: the square of their number.
    """
    rule = f'iifname "{name}" ip protocol vrrp @th,8,8 != {vr_id} drop'
    return Table((Chain("prerouting_vrrp", (rule,), Hook("filter", "prerouting", _BEFORE_CONNTRACK)),), family="ip")


def _messages(name: str, port: int) -> Table:
    """Drops messages to conntrackd that do not come over the HA network.

    conntrackd takes messages on all addresses of the namespace, without authentication: by those to an address of the
    gateway or of an interface, anyone could add connections to a router, or end them.
    """
    rule = f'iifname != "{name}" udp dport {port} drop'
    return Table((Chain("input_conntrackd", (rule,), Hook("filter", "input", _BEFORE_OTHERS)),), family="ip")
