"""The configuration of bgpd for a speaker, and the commands that change a running one. Pure.

A configuration is a set of lines, each in its block, as `show running-config` has them, so that the rendered one and that
of a running bgpd can be compared. Only blocks of BGP and route maps are; the others are bgpd's own.

bgpd runs without zebra: it neither reads nor changes the host's routes. So it announces prefixes that the host has no
route to (`no bgp network import-check`). Each next hop is a route map, which `network` statements name; it reaches
peers of another AS unchanged. What peers announce is denied: this host's traffic follows its own routes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from neutrino.model.bgp import BgpRoute, BgpSpeaker

NOTHING = "nothing"  # the route map that denies what peers announce
_FAMILIES = ("address-family ipv4 unicast", "address-family ipv6 unicast")
_IGNORED = ("!", "exit", "end", "exit-address-family", "")
_HEAD = "frr defaults traditional\nlog stdout informational\n"


class Line(NamedTuple):
    block: str  # such as "router bgp 64512"
    family: str  # the address family inside it; empty: none
    text: str  # empty: the block itself, which may have no line


Config = frozenset[Line]


class Settings(NamedTuple):
    router_id: str
    connect_retry: int = 10


def render(speaker: BgpSpeaker, settings: Settings) -> Config:
    return frozenset((*_route_maps(speaker.routes), *_router(speaker, settings)))


def _route_maps(routes: Iterable[BgpRoute]) -> Iterator[Line]:
    yield Line(f"route-map {NOTHING} deny 10", "", "")
    for next_hop in {route.next_hop for route in routes}:
        command = "set ipv6 next-hop global" if ":" in next_hop else "set ip next-hop"
        yield Line(f"route-map {_map_of(next_hop)} permit 10", "", "")
        yield Line(f"route-map {_map_of(next_hop)} permit 10", "", f"{command} {next_hop}")


def _map_of(next_hop: str) -> str:
    return f"next-hop-{next_hop}"


def _router(speaker: BgpSpeaker, settings: Settings) -> Iterator[Line]:
    block, family = f"router bgp {speaker.local_as}", _FAMILIES[speaker.ip_version == 6]
    for text in (
        "",
        f"bgp router-id {settings.router_id}",
        "no bgp ebgp-requires-policy",
        "no bgp default ipv4-unicast",
        "no bgp network import-check",
    ):
        yield Line(block, "", text)
    for peer in speaker.peers:
        neighbor = f"neighbor {peer.peer_ip}"
        yield Line(block, "", f"{neighbor} remote-as {peer.remote_as}")
        yield Line(block, "", f"{neighbor} timers connect {settings.connect_retry}")
        if peer.password:
            yield Line(block, "", f"{neighbor} password {peer.password}")
        if peer.remote_as != speaker.local_as:  # peers of the same AS may be any number of hops away already
            yield Line(block, "", f"{neighbor} ebgp-multihop 255")
        for text in ("activate", f"route-map {NOTHING} in", "attribute-unchanged next-hop"):
            yield Line(block, family, f"{neighbor} {text}")
    for route in speaker.routes:
        yield Line(block, family, f"network {route.destination} route-map {_map_of(route.next_hop)}")


def parse(text: str) -> Config:
    """The blocks of BGP and route maps in the output of `show running-config`."""
    found: set[Line] = set()
    block = family = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not raw.startswith(" "):
            block, family = (line if line.startswith(("router bgp ", "route-map ")) else ""), ""
            if block:
                found.add(Line(block, "", ""))
        elif line.startswith("address-family "):
            family = line
        elif line == "exit-address-family":
            family = ""
        elif block and line not in _IGNORED:
            found.add(Line(block, family, line))
    return frozenset(found)


def as_file(config: Config) -> str:
    """The configuration that bgpd reads at its start."""
    return _HEAD + "".join(f"{line}\n" for line in changes(config, frozenset()))


def changes(desired: Config, actual: Config) -> list[str]:
    """The commands that make the actual configuration the desired one. Sessions that stay are not reset.

    A route map is there before a network names it, since bgpd would withdraw the prefix, and is removed after that.
    """
    added, removed = desired - actual, _removed(desired, actual)
    out: list[str] = []
    # "route-map" is before "router" in this order, and a block itself before its address families.
    for block, family in sorted({(line.block, line.family) for line in (*added, *removed)}):
        here = [f"no {line.text}" for line in sorted(removed) if (line.block, line.family) == (block, family)]
        new = (line for line in added if line.text and (line.block, line.family) == (block, family))
        out += _block(block, family, [*here, *(line.text for line in sorted(new, key=_order))])
    gone = {line.block for line in actual} - {line.block for line in desired}
    return [*out, *(f"no {block}" for block in sorted(gone))]


def _removed(desired: Config, actual: Config) -> set[Line]:
    """Neighbors and networks to remove; what goes with its block or its neighbor, or is replaced, is not among them."""
    blocks = {line.block for line in desired}
    kept = {(line.block, line.family, _key(line)) for line in desired}
    stay = {(line.block, _neighbor(line)) for line in desired}
    ours = [x for x in actual if x.block in blocks and x.text.startswith(("neighbor ", "network "))]
    gone = {(x.block, _neighbor(x)) for x in ours if _neighbor(x)} - stay
    lines = {x for x in ours if (x.block, _neighbor(x)) not in gone and (x.block, x.family, _key(x)) not in kept}
    return lines | {Line(block, "", f"neighbor {address}") for block, address in gone}


def _order(line: Line) -> tuple[bool, bool, str]:
    """`remote-as` makes a neighbor, so it is before what else the neighbor has."""
    return line.text.startswith("neighbor "), " remote-as " not in line.text, line.text


def _neighbor(line: Line) -> str:
    """The address of the neighbor that a line is about; empty: none."""
    words = line.text.split()
    return words[1] if words[:1] == ["neighbor"] else ""


def _key(line: Line) -> tuple[str, ...]:
    """What a line sets: a later one with the same key replaces it."""
    words = tuple(line.text.split())
    is_single = words[:1] == ("neighbor",) and words[2:3] in (("password",), ("remote-as",), ("timers",))
    return words[:3] if is_single else words[:2] if words[:1] == ("network",) else words


def _block(block: str, family: str, inner: list[str]) -> list[str]:
    if not family:
        return [block, *(f" {text}" for text in inner), "exit"]
    return [block, f" {family}", *(f"  {text}" for text in inner), " exit-address-family", "exit"]
