"""The report of a run, as JSON and as text: what was read and written, and every deviation. It has no values of objects,
so no password or pre-shared key either.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from neutrino.takeover.deviations import Action, Deviations
from neutrino.takeover.writer import Counts

_LISTED = 20  # deviations of an action that the text lists; the file has all


@dataclass
class Report:
    command: str
    source: str
    release: str
    started_at: str
    finished_at: str = ""
    dry_run: bool = False
    final: bool = False
    counts: Mapping[str, Counts] = field(default_factory=dict)
    deviations: Deviations = field(default_factory=Deviations)

    @property
    def written(self) -> int:
        return sum(one.written for one in self.counts.values())

    def to_json(self) -> str:
        document = {
            "command": self.command,
            "source": self.source,
            "release": self.release,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "dry_run": self.dry_run,
            "final": self.final,
            "families": {name: asdict(one) for name, one in self.counts.items()},
            "deviations": [
                {"action": one.action.value, "kind": one.kind, "id": one.object_id, "reason": one.reason}
                for one in self.deviations
            ],
        }
        return json.dumps(document, indent=2) + "\n"

    def to_text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"Neutron {self.release}, {self.source}"
        for name, one in self.counts.items():
            if not one.read and not one.written:
                continue
            done = f"{one.created} created, {one.updated} updated, {one.deleted} deleted"
            yield f"  {name}: {one.read}" + (f" ({done})" if one.written else "")
        for action in Action:
            some = [one for one in self.deviations if one.action is action]
            if some:
                yield f"{action.value}: {len(some)}"
                yield from (f"  {one.kind} {one.object_id}: {one.reason}" for one in some[:_LISTED])
                if len(some) > _LISTED:
                    yield f"  and {len(some) - _LISTED} more: --report FILE has all"
