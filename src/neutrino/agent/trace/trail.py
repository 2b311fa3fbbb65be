"""The trail of a packet on a host: what was observed, where copies of it are, and how they end."""

import dataclasses
from typing import Final

from neutrino.agent.trace.packets import Tags
from neutrino.model.trace import Cause, Exit, Observation, Packet, Point

MAX_OBSERVATIONS: Final = 300
MAX_EXITS: Final = 32
MAX_TEXT: Final = 2000  # characters of a flow or rule
MAX_DRIFT: Final = 20
UNRESOLVED: Final = "00:00:00:00:00:00"  # MAC of a neighbour that has not been asked yet, or has not answered


@dataclasses.dataclass(frozen=True)
class AtSwitch:
    """A packet that enters a bridge by one of its ports."""

    bridge: str
    in_port: int
    packet: Packet
    tags: Tags = ()
    tunnel: tuple[int, str, str] | None = None  # id, outer source and destination


@dataclasses.dataclass(frozen=True)
class AtDevice:
    """A packet that a device of a namespace receives."""

    namespace: str
    device: str
    packet: Packet


Place = AtSwitch | AtDevice


@dataclasses.dataclass
class Trail:
    with_texts: bool = False
    observations: list[Observation] = dataclasses.field(default_factory=list)
    exits: list[Exit] = dataclasses.field(default_factory=list)
    drift: list[str] = dataclasses.field(default_factory=list)
    objects: set[str] = dataclasses.field(default_factory=set)  # ids of the objects on the way
    asked: dict[str, str] = dataclasses.field(default_factory=dict)
    """By MAC of a sender: the neighbour whose MAC it does not know. What is followed then is the question for that MAC."""
    unanswered: dict[str, str] = dataclasses.field(default_factory=dict)
    """By MAC of a sender: that it has asked, and had no answer."""

    def observe(
        self,
        source: str,
        where: str,
        effect: str,
        *,
        owner: tuple[str, str] = ("", ""),
        table: int | None = None,
        text: str = "",
        note: str = "",
    ) -> None:
        if owner[1]:
            self.objects.add(owner[1])
        if len(self.observations) < MAX_OBSERVATIONS:
            self.observations.append(
                Observation(
                    source=source,
                    where=where,
                    effect=effect,
                    owner_kind=owner[0],
                    owner_id=owner[1],
                    table=table,
                    text=text[:MAX_TEXT] if self.with_texts else "",
                    note=note,
                )
            )

    def leave(self, packet: Packet, point: Point, note: str = "") -> None:
        """One copy leaves; of several that leave alike, one is noted."""
        if packet.eth_dst == UNRESOLVED and (silent := self.unanswered.get(packet.eth_src)) is not None:
            if not any(each.cause is Cause.NO_NEIGHBOUR and each.note == silent for each in self.exits):
                self.drop(packet, Cause.NO_NEIGHBOUR, silent)
            return
        if point.port_id:
            self.objects.add(point.port_id)
        if not any(each.point == point and each.packet == packet for each in self.exits):
            self._end(Exit(packet=packet, point=point, note=note, at=len(self.observations)))

    def drop(self, packet: Packet, cause: Cause, note: str = "") -> None:
        self._end(Exit(packet=packet, cause=cause, note=note, at=len(self.observations)))

    def consume(self, packet: Packet, note: str) -> None:
        """The packet is for this host, such as a router's own address."""
        self._end(Exit(packet=packet, note=note, at=len(self.observations)))

    def _end(self, last: Exit) -> None:
        if len(self.exits) < MAX_EXITS:
            self.exits.append(last)

    def drifted(self, lines: list[str]) -> None:
        self.drift += [line[:MAX_TEXT] for line in lines if line[:MAX_TEXT] not in self.drift]
        del self.drift[MAX_DRIFT:]
