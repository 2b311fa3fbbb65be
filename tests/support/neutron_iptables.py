"""The rules and sets of hybrid ports as Neutron's Open vSwitch agent leaves them with `firewall_driver = iptables_hybrid`.

Texts for `ipset restore` and `iptables-restore --noflush`. Of each port: a conntrack zone of its own in the table raw, and
chains for packets into it (i), out of it (o) and of its source addresses (s). What is established passes without a look at
the rules. These are the rules that the driver of Neutron 29 makes, without most of their comments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from neutrino.model.addresses import link_local

PREFIX = "neutron-openvswi"
TOP = "neutron-filter-top"
_BUILT_IN = {"raw": ("PREROUTING", "OUTPUT"), "nat": ("PREROUTING",), "filter": ("INPUT", "OUTPUT", "FORWARD")}
_SET_LENGTH = 29  # of a set's name


@dataclass(frozen=True)
class HybridPort:
    id: str
    mac: str
    addresses: Mapping[int, str]  # by IP version
    zone: int
    tcp: Sequence[int] = ()  # ports that a rule lets in
    members: tuple[int, str] = (0, "")  # a port that a rule lets in from a group

    @property
    def tap(self) -> str:
        return f"tap{self.id[:11]}"


def sets(members: Mapping[str, Mapping[int, Sequence[str]]]) -> str:
    """Of remote groups, with their addresses by IP version."""
    lines = []
    for group, by_version in members.items():
        for version, addresses in by_version.items():
            name = set_name(group, version)
            lines.append(f"create {name} hash:net family {'inet' if version == 4 else 'inet6'}")
            lines += [f"add {name} {address}" for address in addresses]
    return as_text(lines)


def set_name(group: str, version: int) -> str:
    return f"NIPv{version}{group}"[:_SET_LENGTH]


def rules(ports: Sequence[HybridPort], version: int) -> str:
    tables = {"raw": _raw(ports), "nat": _nat(ports), "filter": _filter(ports, version)}
    return as_text([line for name, chains in tables.items() for line in _table(name, chains)])


def _table(name: str, chains: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"*{name}"
    yield from (f":{chain} - [0:0]" for chain in chains)
    for chain in _BUILT_IN[name]:
        yield f"-I {chain} 1 -j {PREFIX}-{chain}"
        if name == "filter" and chain != "INPUT":
            yield f"-I {chain} 1 -j {TOP}"
    yield from (f"-A {chain} {rule}" for chain, found in chains.items() for rule in found)
    yield "COMMIT"


def _raw(ports: Sequence[HybridPort]) -> dict[str, list[str]]:
    zones = []
    for port in ports:
        qvb, comment = f"qvb{port.id[:11]}", f'-m comment --comment "Set zone for {port.id}"'
        for device in (f"-m physdev --physdev-in {qvb}", f"-i {qvb}", f"-m physdev --physdev-in {port.tap}"):
            zones.append(f"{device} {comment} -j CT --zone {port.zone}")
    return {f"{PREFIX}-OUTPUT": [], f"{PREFIX}-PREROUTING": zones}


def _nat(ports: Sequence[HybridPort]) -> dict[str, list[str]]:
    ways = [f"-m physdev --physdev-{way} {port.tap}" for port in ports for way in ("out", "in")]
    return {f"{PREFIX}-PREROUTING": [f"{way} -j ACCEPT" for way in ways]}


def _filter(ports: Sequence[HybridPort], version: int) -> dict[str, list[str]]:
    forward, inwards, groups = [], [], []
    chains: dict[str, list[str]] = {}
    for port in ports:
        to, from_ = (f"-m physdev --physdev-{way} {port.tap} --physdev-is-bridged" for way in ("out", "in"))
        forward += [f"{match} -j {PREFIX}-sg-chain" for match in (to, from_)]
        inwards.append(f"{from_} -j {_chain('o', port)}")
        groups += [f"{to} -j {_chain('i', port)}", f"{from_} -j {_chain('o', port)}"]
        chains |= _port(port, version)
    return {
        TOP: [f"-j {PREFIX}-local"],
        f"{PREFIX}-FORWARD": forward,
        f"{PREFIX}-INPUT": inwards,
        f"{PREFIX}-OUTPUT": [],
        f"{PREFIX}-local": [],
        f"{PREFIX}-sg-chain": [*groups, "-j ACCEPT"],
        f"{PREFIX}-sg-fallback": ["-j DROP"],
        **chains,
    }


def _port(port: HybridPort, version: int) -> dict[str, list[str]]:
    sources = [f"{port.addresses[version]}/{32 if version == 4 else 128}"]
    established = "-m state --state RELATED,ESTABLISHED -j RETURN"
    last = ["-m state --state INVALID -j DROP", f"-j {PREFIX}-sg-fallback"]
    number, group = port.members
    if version == 4:
        into = ["-p icmp -j RETURN", *(f"-p tcp -m tcp --dport {tcp} -j RETURN" for tcp in port.tcp)]
        if group:
            member = f"-m set --match-set {set_name(group, version)} src"
            into.append(f"-p tcp -m tcp --dport {number} {member} -j RETURN")
        first: list[str] = []
        unaddressed = ["-s 0.0.0.0/32 -d 255.255.255.255/32 -p udp -m udp --sport 68 --dport 67 -j RETURN"]
        out = ["-p udp -m udp --sport 68 --dport 67 -j RETURN", "-p udp -m udp --sport 67 --dport 68 -j DROP"]
    else:
        into = []
        sources.append(f"{link_local(port.mac)}/128")
        first = [f"-p ipv6-icmp -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in (130, 135, 136)]
        kinds = (131, 135, 143)
        unaddressed = [f"-s ::/128 -d ff02::/16 -p ipv6-icmp -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in kinds]
        out = ["-p ipv6-icmp -m icmp6 --icmpv6-type 134 -j DROP", "-p ipv6-icmp -j RETURN"]
        out += ["-p udp -m udp --sport 546 --dport 547 -j RETURN", "-p udp -m udp --sport 547 --dport 546 -j DROP"]
    return {
        _chain("i", port): [*first, established, *into, *last],
        _chain("o", port): [*unaddressed, f"-j {_chain('s', port)}", *out, established, "-j RETURN", *last],
        _chain("s", port): [*(f"-s {one} -m mac --mac-source {port.mac} -j RETURN" for one in sources), "-j DROP"],
    }


def _chain(kind: str, port: HybridPort) -> str:
    return f"{PREFIX}-{kind}{port.id[:10]}"


def as_text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
