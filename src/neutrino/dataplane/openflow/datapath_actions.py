"""Actions of the datapath, as `ofproto/trace` prints them: copies of a packet, where they leave, how rewritten. Pure."""

import dataclasses
import re
from collections.abc import Iterator

_SET = re.compile(r"set\((\w+)\((.*)\)\)$")
_NUMBER = re.compile(r"\d+$")
_VID = re.compile(r"vid=(\d+)")
_TUNNEL_TYPES = ("vxlan", "geneve", "gre")


@dataclasses.dataclass(frozen=True)
class Tunnelled:
    """The outer header of a packet in a tunnel."""

    peer: str
    number: int  # VNI, or key of GRE
    kind: str = ""  # empty: by the port of the tunnel


@dataclasses.dataclass(frozen=True)
class Copy:
    """A packet that leaves at a port of the datapath, with what was rewritten; empty: as it came."""

    port: int
    eth_src: str = ""
    eth_dst: str = ""
    source: str = ""
    destination: str = ""
    tags: tuple[int, ...] | None = None  # None: as it came
    tunnel: Tunnelled | None = None
    meters: tuple[int, ...] = ()


def top_level(text: str) -> list[str]:
    """Splits at commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def copies(actions: str, tags: tuple[int, ...] = ()) -> list[Copy]:
    """The copies that leave; `tags` are the VLAN tags with which the packet came."""
    return list(_run(actions, Copy(0, tags=tags)))


def _run(actions: str, state: Copy) -> Iterator[Copy]:
    for action in top_level(actions):
        name, _, rest = action.partition("(")
        inner = rest.removesuffix(")")
        if _NUMBER.match(action):
            yield dataclasses.replace(state, port=int(action))
        elif name == "set":
            state = _set(action, state)
        elif name == "push_vlan":
            found = _VID.search(inner)
            state = dataclasses.replace(state, tags=(int(found[1]) if found else 0, *(state.tags or ())))
        elif name == "pop_vlan":
            state = dataclasses.replace(state, tags=(state.tags or ())[1:])
        elif name == "tnl_push":
            state = dataclasses.replace(state, tunnel=_pushed(inner))
        elif name == "meter":
            state = dataclasses.replace(state, meters=(*state.meters, int(inner) if inner.isdigit() else 0))
        elif name == "clone":  # what it changes is seen by its own copies alone
            yield from _run(inner, state)
        elif name == "check_pkt_len":
            for part in top_level(inner):
                if part.startswith(("gt(", "le(")):
                    yield from _run(part[3:-1], state)
        # ct, ct_clear, recirc, sample, userspace, trunc, drop: nothing leaves by these themselves


def _set(action: str, state: Copy) -> Copy:
    found = _SET.match(action)
    if found is None:
        return state
    kind, inner = found[1], found[2]
    values = {key: value.partition("/")[0] for key, _, value in (part.partition("=") for part in top_level(inner))}
    match kind:
        case "eth":
            eth_src, eth_dst = values.get("src", state.eth_src), values.get("dst", state.eth_dst)
            return dataclasses.replace(state, eth_src=eth_src, eth_dst=eth_dst)
        case "ipv4" | "ipv6":
            source, destination = values.get("src", state.source), values.get("dst", state.destination)
            return dataclasses.replace(state, source=source, destination=destination)
        case "tunnel":
            peer = values.get("dst") or values.get("ipv6_dst", "")
            return dataclasses.replace(state, tunnel=Tunnelled(peer, int(values.get("tun_id", "0"), 0)))
    return state


def _pushed(inner: str) -> Tunnelled:
    """The header of `tnl_push`, which the userspace datapath adds itself."""
    header = next((part for part in top_level(inner) if part.startswith("header(")), "")
    parts = top_level(header.removeprefix("header(").removesuffix(")"))
    peer, number, kind = "", 0, ""
    for part in parts:
        name = part.partition("(")[0]
        if name in ("ipv4", "ipv6") and (found := re.search(r"dst=([0-9a-fA-F.:]+)", part)):
            peer = found[1]
        elif name in _TUNNEL_TYPES:
            kind = name
            if found := re.search(r"(?:vni|key)=(0x[0-9a-f]+|\d+)", part):
                number = int(found[1], 0)
    return Tunnelled(peer, number, kind)
