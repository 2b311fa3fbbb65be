"""High availability: the device on the HA network, on every host of an HA router."""

from neutrino.agent.l3.devices import render_device, render_plug
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import HA, device
from neutrino.dataplane.netlink.values import address


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
        if namespace.options.ha_conntrackd_enabled:
            # By default a connection has events only if conntrackd ran when it began: the others' end would be missed.
            sysctls["net/netfilter/nf_conntrack_events"] = "1"
        return Contribution(
            devices=(render_device(name, port, namespace.options),),
            plugs=(render_plug(name, port, namespace.options),),
            host_addresses=tuple(address(name, each.prefixed, nodad=True) for each in port.addresses),
            sysctls=sysctls,
            device_prefixes=(HA,),
        )
