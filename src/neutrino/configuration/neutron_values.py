"""Names that Neutron's configuration gives to plugins, drivers and extensions, and what they are here; as data.

The types of these options (`name_type`, `list_type`) read Neutron's names as ours, so that nothing else in the program
knows them. A name that is installed as an entry point, by us or by a third party, always means that entry point.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from oslo_config import types

from neutrino import entry_points

# Entry points of drivers written for Neutron, by option of [ml2].
NEUTRON_GROUPS = {kind: f"neutron.ml2.{kind}" for kind in ("type_drivers", "mechanism_drivers", "extension_drivers")}
INCLUDED = ""  # instead of a name: a part of Neutron that is always included here


def is_of_third_party(point: metadata.EntryPoint) -> bool:
    """Whether a driver written for Neutron is not one of Neutron's own, which need its database."""
    return point.module.partition(".")[0] != "neutron"


@dataclass(frozen=True)
class Names:
    """The values of one option."""

    names: Mapping[str, str] = field(default_factory=dict)  # Neutron's → ours, or INCLUDED
    missing: Mapping[str, str] = field(default_factory=dict)  # Neutron's → why it is not here
    group: str = ""  # of entry points
    neutron_group: str = ""  # the same, of drivers written for Neutron
    choices: tuple[str, ...] = ()  # for options without entry points

    def available(self) -> Collection[str]:
        if self.choices:
            return self.choices
        theirs = entry_points.of_group(self.neutron_group) if self.neutron_group else ()
        own = {point.name for point in entry_points.of_group(self.group)}
        return own | {point.name for point in theirs if is_of_third_party(point)}

    def read(self, text: str) -> str:
        """Our name; INCLUDED if there is nothing to load."""
        if text in self.available():
            return text
        path = text.replace(":", ".")  # some deployment tools separate module and class by a colon
        name = self.names.get(path, path)
        if name == INCLUDED or name in self.available():
            return name
        if name in self.missing:
            raise ValueError(f"{text!r} is not supported: {self.missing[name]}")
        if self.choices:
            raise ValueError(f"{text!r} is none of {', '.join(self.choices)}")
        return name  # unknown: the loader's error names the entry points


_OVN = "OVN is another backend"
_VENDOR = "it is a driver for one vendor's products"

TABLE: dict[tuple[str, str], Names] = {
    ("DEFAULT", "core_plugin"): Names(
        names={"neutron.plugins.ml2.plugin.Ml2Plugin": "ml2", "neutron.plugins.ml2.plugin.ML2Plugin": "ml2"},
        missing={
            "neutron.plugins.openvswitch.ovs_neutron_plugin.OVSNeutronPluginV2": "use ml2",
            "openvswitch": "use ml2",
        },
        group="neutrino.core_plugins",
    ),
    ("DEFAULT", "service_plugins"): Names(
        names={
            **dict.fromkeys(
                (
                    *("auto_allocate", "neutron.services.auto_allocate.plugin.Plugin"),
                    *("conntrack_helper", "neutron.services.conntrack_helper.plugin.Plugin"),
                    *("ndp_proxy", "neutron.services.ndp_proxy.plugin.NDPProxyPlugin"),
                    "network_ip_availability",
                    "neutron.services.network_ip_availability.plugin.NetworkIPAvailabilityPlugin",
                    *("port_forwarding", "neutron.services.portforwarding.pf_plugin.PortForwardingPlugin"),
                    *("revisions", "neutron.services.revisions.revision_plugin.RevisionPlugin"),
                    *("tag", "neutron.services.tag.tag_plugin.TagPlugin"),
                    *("timestamp", "neutron.services.timestamp.timestamp_plugin.TimeStampPlugin"),
                    "timestamp_core",
                ),
                INCLUDED,
            ),
        },
        missing={
            **dict.fromkeys(("pvlan", "neutron.services.pvlan.pvlan_plugin.PVLANPlugin"), "it is for OVN alone"),
            "firewall": "it is version 1 of firewalls, which Neutron has removed: use firewall_v2",
            **dict.fromkeys(("sfc", "flow_classifier"), "service chaining is networking-sfc's, with agents of its own"),
            "bgpvpn": "BGP VPNs are networking-bgpvpn's, with agents of its own",
            **dict.fromkeys(
                ("ovn-router", "neutron.services.ovn_l3.plugin.OVNL3RouterPlugin", "ovn-bgp", "evpn"), _OVN
            ),
            "lbaasv2": "load balancers are Octavia's",
        },
    ),
    ("DEFAULT", "external_dns_driver"): Names(
        names={
            "none": "",
            "neutron.services.externaldns.drivers.designate.driver.Designate": "designate",
        },
        group="neutrino.external_dns_drivers",
    ),
    ("ml2", "mechanism_drivers"): Names(
        missing={
            **dict.fromkeys(("ovn", "ovn-sync"), _OVN),
            "linuxbridge": "Linux bridge is another backend, and no longer in Neutron",
            "macvtap": "its agent is another backend; ports with VNIC type macvtap are bound by sriovnicswitch",
            "baremetal": "it is a driver of Ironic's: install networking-baremetal",
            "genericswitch": "install networking-generic-switch",
            **dict.fromkeys(("cascading", "vlb", "vip", "eip", "l2population_v2"), _VENDOR),
        },
        group="neutrino.ml2.mechanism_drivers",
        neutron_group=NEUTRON_GROUPS["mechanism_drivers"],
    ),
    ("ml2", "type_drivers"): Names(group="neutrino.ml2.type_drivers", neutron_group=NEUTRON_GROUPS["type_drivers"]),
    ("ml2", "extension_drivers"): Names(
        names=dict.fromkeys(
            (
                *("tag_ports_during_bulk_creation", "qos", "port_device_profile", "port_hardware_offload_type"),
                *("port_hints", "port_hint_ovs_tx_steering", "port_numa_affinity_policy", "port_trusted"),
                *("uplink_status_propagation", "uplink_status_propagation_updatable", "data_plane_status"),
            ),
            INCLUDED,
        )
        | dict.fromkeys(("dns_domain_ports", "dns_domain_keywords", "subnet_dns_publish_fixed_ip"), "dns"),
        missing={"cascading_qos": _VENDOR},
        group="neutrino.ml2.extension_drivers",
        neutron_group=NEUTRON_GROUPS["extension_drivers"],
    ),
    ("securitygroup", "firewall_driver"): Names(
        names={
            "neutron.agent.linux.iptables_firewall.OVSHybridIptablesFirewallDriver": "iptables_hybrid",
            "neutron.agent.linux.openvswitch_firewall.OVSFirewallDriver": "openvswitch",
            "neutron.agent.linux.openvswitch_firewall.firewall.OVSFirewallDriver": "openvswitch",
            "neutron.agent.firewall.NoopFirewallDriver": "noop",
        },
        missing=dict.fromkeys(
            ("iptables", "neutron.agent.linux.iptables_firewall.IptablesFirewallDriver"),
            "it is for Linux bridge; with Open vSwitch use openvswitch or iptables_hybrid",
        ),
        choices=("openvswitch", "iptables_hybrid", "noop"),
    ),
    # Neutron's L2 and L3 agents both read this option; here it lists the extensions of the L2 role.
    ("agent", "extensions"): Names(
        names=dict.fromkeys(
            ("fip_qos", "gateway_ip_qos", "port_forwarding", "conntrack_helper", "ndp_proxy", "fdb", "fwaas_v2_log"),
            INCLUDED,
        ),
        missing={
            "dhcp": "use the role dhcp with dhcp_distributed",
            "metadata_path": "use the role metadata",
            "snat_log": "logs of SNAT have no driver in Neutron 29 either, and their resources are refused",
            "dns_forwarder": "dnsmasq of each network forwards names: see dnsmasq_dns_servers and dnsmasq_local_resolv",
            "fwaas": "it is version 1 of firewalls, which Neutron has removed: use fwaas_v2",
        },
        group="neutrino.agent.l2_extensions",
    ),
}


def add_names(section: str, name: str, names: Mapping[str, str]) -> None:
    """Add names that installed packages give to what Neutron's configuration calls otherwise."""
    table = TABLE[section, name]
    TABLE[section, name] = replace(table, names={**table.names, **names})


def read_list(section: str, name: str, text: str) -> tuple[str, ...]:
    """Our names in the text of an option that lists names."""
    return tuple(_NameList(TABLE[section, name].read)(text))


def hints(section: str, name: str, text: str) -> list[str]:
    """Return how an option's value was read, where Neutron's names were replaced."""
    table = TABLE.get((section, name))
    if table is None:
        return []
    read = [(theirs, table.read(theirs)) for theirs in map(str.strip, text.split(",")) if theirs]
    return [f"{theirs} as {ours}" if ours else f"{theirs} is included" for theirs, ours in read if theirs != ours]


class _Name(types.String):
    """The type of an option that names one driver."""

    def __init__(self, read: Callable[[str], str], type_name: str = "string value") -> None:
        super().__init__(type_name=type_name)
        self._read = read

    def __call__(self, value: object) -> str:
        return self._read(str(value).strip())

    def __repr__(self) -> str:
        return self.type_name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._read == other._read

    __hash__ = None  # type: ignore[assignment]


class _NameList(_Name):
    """The type of an option that lists drivers. Not oslo's list: it would join an invalid name with the next one."""

    def __call__(self, value: str | Iterable[str]) -> list[str]:  # type: ignore[override]
        texts = [text.strip() for text in (value.split(",") if isinstance(value, str) else value)]
        names = [self._read(text) for text in texts if text]
        return [name for name in dict.fromkeys(names) if name != INCLUDED]

    def format_defaults(self, default: Any, sample_default: object = None) -> list[str]:
        return [",".join(default)]


def name_type(section: str, name: str) -> types.ConfigType:
    return _Name(TABLE[section, name].read)


def list_type(section: str, name: str) -> types.ConfigType:
    return _NameList(TABLE[section, name].read, "list value")
