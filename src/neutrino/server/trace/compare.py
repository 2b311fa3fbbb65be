"""Compares the server's path with the hosts' answers: verdict, cause, agreement, drift and lag. Pure.

server       hosts        verdict      cause
delivered    delivered    delivered
dropped      dropped      dropped      the server's; the hosts' if both are specific and differ
delivered    dropped      dropped      lag, if the host has not applied the newest change of an object on the path;
                                       the host's cause, if only a host knows it (no device …); else drift
dropped      delivered    delivered    a difference is named; except for the MTU, where no device that was looked at decides
unknown      delivered    delivered, unless no host decides what is unknown (`OPEN`)
any          no answer    the server's if it is dropped, else unknown with the reason

A packet that arrives with another source than the server expects has not been translated, or not translated back: there
is no answer to it, so it counts as dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.model.trace import Cause, Verdict
from neutrino.server.trace.collect import Collected, End
from neutrino.server.trace.path import UNKNOWN_MAC
from neutrino.server.trace.steps.walk import contains
from neutrino.server.trace.values import DROP, Path, Snapshot, Step

DATAPLANE: Final = "dataplane"  # kind of a step that only the hosts know
# What a host answers where it knows no more than that nothing leaves: every cause of the server explains it.
_UNSPECIFIC: Final = frozenset({Cause.NONE, Cause.OTHER, Cause.DRIFT})
_NO_FLOWS: Final = frozenset({Cause.PORT_NOT_WIRED, Cause.NO_DEVICE})
_NOWHERE: Final = frozenset(
    {
        *(Cause.NO_SUCH_ADDRESS, Cause.NO_DEVICE, Cause.NO_ROUTE, Cause.NO_TUNNEL, Cause.NO_ROUTER),
        Cause.NO_NEIGHBOUR,
    }
)
# The same thing as the server and as a host sees it.
_SAME: Final = {
    Cause.PORT_ADMIN_DOWN: _NO_FLOWS | _NOWHERE,
    Cause.NETWORK_ADMIN_DOWN: _NO_FLOWS | _NOWHERE,
    Cause.PORT_UNBOUND: _NO_FLOWS | _NOWHERE,
    Cause.BINDING_FAILED: _NO_FLOWS | _NOWHERE,
    Cause.PORT_NOT_WIRED: _NO_FLOWS | _NOWHERE,
    Cause.HOST_DOWN: _NO_FLOWS | _NOWHERE,
    Cause.NO_SUCH_ADDRESS: _NOWHERE,
    Cause.NO_ROUTER: _NOWHERE,
    Cause.NO_TUNNEL: _NOWHERE,
    Cause.NETWORK_LOCAL: _NO_FLOWS | _NOWHERE,
    Cause.NO_LOCAL_IP: _NO_FLOWS | _NOWHERE,
    Cause.NOT_REACHED: _NO_FLOWS | _NOWHERE,
    Cause.NO_PHYSICAL_NETWORK: _NO_FLOWS | _NOWHERE,
    Cause.ROUTER_ADMIN_DOWN: _NO_FLOWS | _NOWHERE,
    Cause.ROUTER_NOT_SCHEDULED: _NO_FLOWS | _NOWHERE,
    Cause.ROUTER_NOT_ACTIVE: _NO_FLOWS | _NOWHERE,
    Cause.FLOATING_IP_DOWN: _NOWHERE | {Cause.NO_FLOATING_IP},
    Cause.NO_FLOATING_IP: _NOWHERE,
}
# The host knows better: the server only sees that the port is down.
_MORE_SPECIFIC: Final = {(Cause.PORT_NOT_WIRED, Cause.NO_DEVICE), (Cause.PORT_NOT_WIRED, Cause.LINK_DOWN)}
# Facts of a host, whatever the desired state is.
_HOSTS_OWN: Final = frozenset(
    {
        *(Cause.NO_DEVICE, Cause.LINK_DOWN, Cause.DATAPLANE_DOWN, Cause.NO_TUNNEL, Cause.NO_PHYSICAL_NETWORK),
        *(Cause.PORT_NOT_WIRED, Cause.PACKET_TOO_BIG, Cause.VPN_DOWN, Cause.NO_NEIGHBOUR),
    }
)
# It leaves by a physical network to an address that no port has: nobody here knows whether a machine has it.
_OUTSIDE_OPEN: Final = frozenset({Cause.NO_SUCH_ADDRESS, Cause.NO_ROUTER})
# No host decides these: what an instance does with a packet that it has to forward, which addresses it uses that are not
# its port's, and the routes of the outside.
OPEN: Final = frozenset({Cause.NEXT_HOP, Cause.NO_ROUTE_BACK, Cause.NOT_REACHED, Cause.NO_SUCH_ADDRESS})


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is named with its host."""

    host: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    verdict: Verdict
    cause: Cause = Cause.NONE
    agreement: bool | None = None  # None: no host had to be asked, or none answered
    differences: tuple[Note, ...] = ()
    drift: tuple[Note, ...] = ()
    lag: tuple[Note, ...] = ()
    step: Step | None = None  # the drop that only the dataplane knows


def compare(path: Path, collected: Collected, snapshot: Snapshot, newest: int) -> Result:
    """`newest`: position of the newest change of the objects on the path."""
    drift = tuple(Note(a.host, text) for a in collected.asked if a.answer is not None for text in a.answer.drift)
    lag = tuple(_lag(collected, newest))
    if not any(asked.answer is not None for asked in collected.asked):
        return Result(*_without_answers(path, collected), None, (), drift, lag)
    arrived, lost, dropped = _outcome(path, collected, snapshot)
    if (
        path.cause in _OUTSIDE_OPEN
        and path.verdict is Verdict.UNKNOWN
        and any(e.kind == "outside" for e in collected.ends)
    ):
        return Result(Verdict.UNKNOWN, path.cause, True, (), drift, lag)
    is_missed = path.cause is Cause.NOT_REACHED and path.verdict is Verdict.DROPPED
    if is_missed and arrived is None and any(end.kind == "outside" for end in collected.ends):
        return Result(Verdict.DROPPED, path.cause, True, (), drift, lag)
    if (doubt := _open(path, arrived, dropped)) is not None:
        return Result(Verdict.UNKNOWN, doubt, True, (), drift, lag)
    if arrived is not None:
        return _delivered(path, arrived, drift, lag)
    if lost is not None and dropped is None:
        verdict = (path.verdict, path.cause) if path.verdict is Verdict.DROPPED else (Verdict.UNKNOWN, lost.cause)
        return Result(*verdict, None, (Note(lost.host, f"no answer: {lost.note}"),), drift, lag)
    return _dropped(path, dropped, drift, lag)


def _open(path: Path, arrived: End | None, dropped: End | None) -> Cause | None:
    """What stays open whatever hosts have answered; None: they decide."""
    doubt = next((each for each in path.doubts if each in OPEN), None)
    if path.verdict is not Verdict.UNKNOWN or doubt is None:
        return None
    if doubt is Cause.NO_SUCH_ADDRESS:  # the packet of the trace has no destination MAC, so the switch floods it
        return None if dropped is not None and dropped.cause in _HOSTS_OWN - _NOWHERE else doubt
    return doubt if arrived is not None else None


def takes_oversized(path: Path, collected: Collected, snapshot: Snapshot) -> bool:
    """Whether a packet that is too big by the MTU of networks passes all devices: they may be older than the MTU."""
    if path.cause is not Cause.PACKET_TOO_BIG or not collected.asked or (first := collected.asked[0].answer) is None:
        return False
    is_seen = any(each.source == "device" and each.effect == "input" for each in first.observations)
    return is_seen and any(end.kind in ("port", "outside") and _has(end, path, snapshot) for end in collected.ends)


def _has(end: End, path: Path, snapshot: Snapshot) -> bool:
    """Whether a copy of a packet ends where its destination is."""
    if end.kind == "outside":
        return end.packet.eth_dst not in ("", UNKNOWN_MAC)
    port = snapshot.ports.get(end.port_id)
    addresses = [f.ip_address for f in port.port.fixed_ips] if port is not None else []
    pairs = [pair.ip_address for pair in port.port.allowed_address_pairs] if port is not None else []
    return any(contains(address, end.packet.destination) for address in addresses + pairs)


def _without_answers(path: Path, collected: Collected) -> tuple[Verdict, Cause]:
    failure = next((asked.failure for asked in collected.asked), Cause.NONE)
    if failure is Cause.NONE or path.verdict is Verdict.DROPPED:
        return path.verdict, path.cause
    return Verdict.UNKNOWN, failure


def _outcome(path: Path, collected: Collected, snapshot: Snapshot) -> tuple[End | None, End | None, End | None]:
    """The copy that arrives, the one that got lost, and the one that was dropped last; None where there is none."""
    arrived = next((end for end in collected.ends if _arrives(end, path, snapshot)), None)
    lost = next((end for end in collected.ends if end.kind == "lost"), None)
    drops = [end for end in collected.ends if end.kind == "dropped"]
    drops.sort(key=lambda end: end.cause in _UNSPECIFIC)  # stable: a specific cause first, then the order of hosts
    return arrived, lost, drops[0] if drops else None


def _arrives(end: End, path: Path, snapshot: Snapshot) -> bool:
    if end.kind == "consumed":
        if path.cause is Cause.NO_FLOATING_IP:  # an address of the router, which rejects the packet
            return False
        return bool(path.end_router_id) or path.verdict is not Verdict.DELIVERED or _is_service(end, path, snapshot)
    if end.kind == "outside":
        return bool(path.end_network_id) and end.packet.eth_dst != UNKNOWN_MAC
    if end.kind != "port":
        return False
    if end.port_id == path.end_port_id:
        return True
    return path.cause is not Cause.NOT_REACHED and _has(end, path, snapshot)


def _is_service(end: End, path: Path, snapshot: Snapshot) -> bool:
    """Whether the receiver is a port of a service on this host, such as DHCP: its namespace consumes the packet."""
    port = snapshot.ports.get(path.end_port_id)
    return port is not None and port.port.device_owner.startswith("network:") and port.port.host == end.host


def _delivered(path: Path, end: End, drift: tuple[Note, ...], lag: tuple[Note, ...]) -> Result:
    if path.verdict is not Verdict.DROPPED:
        if (text := _mistranslated(path, end)) != "":
            cause = Cause.LAG if any(each.host == end.host for each in lag) else Cause.DRIFT
            note = (Note(end.host, text),)
            return Result(Verdict.DROPPED, cause, False, note, drift, lag, _step(end, cause, text))
        return Result(Verdict.DELIVERED, Cause.NONE, True, (), drift, lag)
    if path.cause is Cause.PACKET_TOO_BIG:  # `takes_oversized`
        return Result(Verdict.DROPPED, path.cause, True, (), drift, lag)
    why = "has not applied the newest changes" if lag else "differs from the desired state"
    text = (
        f"By the server's data the packet is dropped ({path.cause}); the dataplane delivers it: host {end.host} {why}."
    )
    return Result(Verdict.DELIVERED, Cause.NONE, False, (Note(end.host, text),), drift, lag)


def _mistranslated(path: Path, end: End) -> str:
    """What is wrong with the source of a packet that arrives; empty if nothing is."""
    found, wanted, sent = end.packet.source, path.packet.source, path.hops[0].packet.source if path.hops else ""
    if end.kind not in ("port", "outside") or found == wanted or (wanted == sent and not path.packet.reply):
        return ""
    return f"it leaves host {end.host} with source {found} in place of {wanted}, so that no answer belongs to it"


def _dropped(path: Path, end: End | None, drift: tuple[Note, ...], lag: tuple[Note, ...]) -> Result:
    cause, host = (end.cause, end.host) if end is not None else (Cause.NONE, "")
    note = end.note if end is not None and end.note else "no copy of the packet arrives"
    if path.verdict is Verdict.DROPPED:
        if (path.cause, cause) in _MORE_SPECIFIC:
            return Result(Verdict.DROPPED, cause, True, (), drift, lag)
        if cause is path.cause or cause in _UNSPECIFIC or cause in _SAME.get(path.cause, frozenset()):
            return Result(Verdict.DROPPED, path.cause, True, (), drift, lag)
        text = f"By the server's data the cause is {path.cause}; by the dataplane of host {host} it is {cause}: {note}."
        return Result(Verdict.DROPPED, cause, False, (Note(host, text),), drift, lag, _step(end, cause, note))
    where = f"the dataplane of host {host} drops it ({cause or 'drop'}): {note}" if host else f"in the dataplane {note}"
    text = f"By the server's data the packet arrives; {where}."
    found = cause
    if cause not in _HOSTS_OWN:
        found = Cause.LAG if any(each.host == host for each in lag) else Cause.DRIFT
    return Result(Verdict.DROPPED, found, False, (Note(host, text),), drift, lag, _step(end, found, note))


def _step(end: End | None, cause: Cause, note: str) -> Step:
    host, packet = (end.host, end.packet) if end is not None else ("", None)
    text = f"The dataplane of host {host} drops the packet: {note}." if host else f"In the dataplane, {note}."
    public = (
        "The dataplane drops the packet, though the objects of the API let it pass: an administrator can see where."
    )
    return Step(kind=DATAPLANE, result=DROP, text=text, public=public, host=host, packet=packet, cause=cause)


def _lag(collected: Collected, newest: int) -> Sequence[Note]:
    """Hosts that have not applied the newest change yet."""
    found: dict[str, Note] = {}
    for asked in collected.asked:
        position = asked.answer.position if asked.answer is not None else 0
        if 0 < position < newest:
            text = f"Host {asked.host} has applied changes up to {position}, and a newer one concerns this path."
            found[asked.host] = Note(asked.host, text)
    return list(found.values())
