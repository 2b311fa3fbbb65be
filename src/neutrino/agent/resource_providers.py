"""Bandwidths and packet rates that this host guarantees, as Placement gets them from the server; with Neutron's options.

A device is a bridge of a physical network, `[ml2] tunnelled_network_rp_name` for what tunnels share, or a card of the
SR-IOV role, whose options are in a group of their own. Each belongs to a hypervisor: the name under which nova-compute
has a resource provider.
"""

import socket
from collections.abc import Callable, Mapping, Sequence

from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.model import agents
from neutrino.model.objects import Object

Rates = dict[str, dict[str, int | None]]  # by device or hypervisor, then direction; None: no inventory
# The options are called like the keys of the report.
BANDWIDTHS, DEFAULTS = agents.PROVIDED_BANDWIDTHS, agents.PROVIDED_DEFAULTS
WITHOUT_DIRECTION, WITH_DIRECTION = agents.PROVIDED_PACKETS, agents.PROVIDED_PACKETS_BY_DIRECTION
PACKET_DEFAULTS, HYPERVISORS = agents.PROVIDED_PACKET_DEFAULTS, agents.PROVIDER_HYPERVISORS
DEFAULT_HYPERVISOR = "resource_provider_default_hypervisor"
_DIRECTIONS, _ANY = ("egress", "ingress"), ("any",)
_LARGEST = 2**31 - 1  # of Placement's integers
_LEAST = {"max_unit": 1, "min_unit": 1, "reserved": 0, "step_size": 1}
_INVENTORY = {"allocation_ratio": "1.0", "min_unit": "1", "step_size": "1", "reserved": "0"}


def bandwidth_options(of: str, text: str) -> list[cfg.Opt]:
    """The options on bandwidths of one role. `of`: what its devices are; `text`: what they can send and receive."""
    return [
        cfg.ListOpt(BANDWIDTHS, default=[], help=text),
        cfg.DictOpt(
            HYPERVISORS,
            default={},
            help=f"Hypervisors of {of}s, as {of}:hypervisor, where these are not resource_provider_default_hypervisor.",
        ),
        cfg.StrOpt(
            DEFAULT_HYPERVISOR,
            help="The name of this host's compute node in Nova, and of its resource provider in Placement; by default the "
            "host's canonical name.",
        ),
        cfg.DictOpt(
            DEFAULTS,
            default=_INVENTORY,
            help="Values of inventories of bandwidth in Placement: allocation_ratio, max_unit, min_unit, reserved, "
            "step_size.",
        ),
    ]


OVS_OPTIONS = [
    *bandwidth_options(
        "bridge",
        "What uplinks of bridges can send and receive, as bridge:egress:ingress in kbit/s, as instances see it; "
        "tunnelled_network_rp_name in place of a bridge: what all tunnels can. Minimum bandwidths of ports are guaranteed "
        "within the first (by default, the device's own speed is the limit), and Placement gets both.",
    ),
    cfg.ListOpt(
        WITHOUT_DIRECTION,
        default=[],
        help="Packets that the switch can process, as hypervisor:rate in 1000 packets per second; an empty hypervisor is "
        "the default one.",
    ),
    cfg.ListOpt(
        WITH_DIRECTION,
        default=[],
        help="The same by direction, as hypervisor:egress:ingress, for switches with hardware offload. Not both.",
    ),
    cfg.DictOpt(PACKET_DEFAULTS, default=_INVENTORY, help="Values of inventories of packet rates in Placement."),
]
ML2_OPTIONS = [
    cfg.StrOpt(
        "tunnelled_network_rp_name",
        default="rp_tunnelled",
        help="Name of the device, in resource_provider_bandwidths, for what tunnelled networks share.",
    )
]


def bandwidths(conf: cfg.ConfigOpts) -> Rates:
    return _rates(conf, "ovs", BANDWIDTHS, _DIRECTIONS, "bridge")


def of_devices(
    conf: cfg.ConfigOpts, group: str, devices: Sequence[str], host_name: Callable[[], str] | None = None
) -> Object:
    """What a role with devices of its own reports: bandwidths, without packet rates. Raises RefusedToStart."""
    rates, options = _rates(conf, group, BANDWIDTHS, _DIRECTIONS, "device"), conf[group]
    for option, named in ((BANDWIDTHS, rates), (HYPERVISORS, options[HYPERVISORS])):
        if unknown := [device for device in named if device not in devices]:
            raise RefusedToStart(f"[{group}] {option}: {unknown[0]} is no device of physical_device_mappings")
    default = options[DEFAULT_HYPERVISOR] or ((host_name or canonical_name)() if rates else conf.host)
    return {
        BANDWIDTHS: rates,
        DEFAULTS: _inventory(conf, group, DEFAULTS),
        HYPERVISORS: {device: options[HYPERVISORS].get(device) or default for device in devices},
    }


def report(conf: cfg.ConfigOpts, bridges: Sequence[str], host_name: Callable[[], str] | None = None) -> Object:
    """What the agent reports, under Neutron's keys. Raises RefusedToStart."""
    rates, tunnelled = bandwidths(conf), conf.ml2.tunnelled_network_rp_name
    # The device of the tunnel address is known only at run time: its rate limits queues, and is not in Placement.
    reported = {device: each for device, each in rates.items() if device in bridges or device == tunnelled}
    for device in rates:
        if device not in reported and not conf.agent.tunnel_types:
            raise RefusedToStart(f"[ovs] {BANDWIDTHS}: {device} is no bridge of bridge_mappings")
    for device in conf.ovs[HYPERVISORS]:
        if device not in bridges and device != tunnelled:
            raise RefusedToStart(f"[ovs] {HYPERVISORS}: {device} is no bridge of bridge_mappings")
    without, with_direction = (
        _rates(conf, "ovs", option, directions)
        for option, directions in ((WITHOUT_DIRECTION, _ANY), (WITH_DIRECTION, _DIRECTIONS))
    )
    if without and with_direction:
        raise RefusedToStart(f"[ovs] {WITHOUT_DIRECTION} and {WITH_DIRECTION}: only one of them can be set")
    is_used = bool(reported or without or with_direction)
    # The name is looked up only if it is needed: a resolver that does not answer would delay each start.
    default = conf.ovs[DEFAULT_HYPERVISOR] or ((host_name or canonical_name)() if is_used else conf.host)
    return {
        BANDWIDTHS: reported,
        DEFAULTS: _inventory(conf, "ovs", DEFAULTS),
        WITHOUT_DIRECTION: _of_hypervisors(WITHOUT_DIRECTION, without, default),
        WITH_DIRECTION: _of_hypervisors(WITH_DIRECTION, with_direction, default),
        PACKET_DEFAULTS: _inventory(conf, "ovs", PACKET_DEFAULTS),
        HYPERVISORS: {device: conf.ovs[HYPERVISORS].get(device) or default for device in (*bridges, tunnelled)},
        agents.TUNNELLED_PROVIDER: tunnelled,
    }


def _rates(conf: cfg.ConfigOpts, group: str, option: str, directions: Sequence[str], of: str = "") -> Rates:
    found: Rates = {}
    shape = ":".join((of or "hypervisor", *(directions if len(directions) > 1 else ("rate",))))
    for text in conf[group][option]:
        name, *rates = (part.strip() for part in text.split(":"))
        if len(rates) > len(directions) or (of and not name) or not all(_is_rate(rate) for rate in rates):
            raise RefusedToStart(f"[{group}] {option}: {text!r} is not {shape}")
        if name in found:
            raise RefusedToStart(f"[{group}] {option}: {text!r} names a {of or 'hypervisor'} a second time")
        rates += [""] * (len(directions) - len(rates))
        found[name] = {one: int(rate) if rate else None for one, rate in zip(directions, rates, strict=True)}
    return found


def _is_rate(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and int(text) <= _LARGEST)


def _of_hypervisors(option: str, rates: Rates, default: str) -> Rates:
    if "" in rates and default in rates:
        raise RefusedToStart(f"[ovs] {option} names {default} a second time: it is the default hypervisor")
    return {name or default: each for name, each in rates.items()}


def _inventory(conf: cfg.ConfigOpts, group: str, option: str) -> dict[str, int | float]:
    given: Mapping[str, str] = conf[group][option]
    return {name: _value(group, option, name, str(text)) for name, text in given.items()}


def _value(group: str, option: str, name: str, text: str) -> int | float:
    if name == "allocation_ratio":
        try:
            ratio = float(text)
        except ValueError:
            ratio = 0.0
        if not 0 < ratio <= _LARGEST:
            raise RefusedToStart(f"[{group}] {option}: allocation_ratio={text} is not a number above 0")
        return ratio
    if name not in _LEAST:
        known = ", ".join(sorted(("allocation_ratio", *_LEAST)))
        raise RefusedToStart(f"[{group}] {option}: {name!r} is none of {known}")
    if not text or not _is_rate(text) or int(text) < _LEAST[name]:
        raise RefusedToStart(f"[{group}] {option}: {name}={text} is not a whole number from {_LEAST[name]} on")
    return int(text)


def canonical_name() -> str:
    """The name that libvirt, and so Nova, has for this machine."""
    name = socket.gethostname()
    if name.startswith("localhost") or "." in name:
        return name
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return name
    canonical = found[0][3] if found else ""
    return canonical if canonical and not canonical.startswith("localhost") else name
