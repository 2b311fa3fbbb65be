"""Verification: every collection of two running servers, compared page by page: memory does not grow with the cloud.

Objects are matched by their keys in whatever order the servers send them. What is below single objects, such as the
bindings of a port, takes a request for each: it is compared for a sample of them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Final, Protocol

from neutrino.model.objects import Object
from neutrino.takeover.comparison import Difference, compare, key_of
from neutrino.takeover.family import Shown
from neutrino.takeover.importer import Progress, no_progress

_LISTED: Final = 20  # differences that the text lists; the file has all


class Reader(Protocol):
    """Reads the collections of a server as one caller."""

    def page(self, path: str, key: str, marker: str | None = None) -> list[Object] | None:
        """A page of a collection, `key` in the answer, after the object `marker`; None: it does not have or show it."""


@dataclass
class Verification:
    """What was compared, and how both servers differ."""

    caller: str
    counts: dict[str, int] = field(default_factory=dict)  # objects of Neutron, by collection
    differences: list[Difference] = field(default_factory=list)

    def to_text(self) -> str:
        lines = [f"as {self.caller}: {sum(self.counts.values())} objects in {len(self.counts)} collections compared"]
        lines += [f"  {difference}" for difference in self.differences[:_LISTED]]
        if len(self.differences) > _LISTED:
            lines.append(f"  and {len(self.differences) - _LISTED} more: --report FILE has all")
        lines.append(f"{len(self.differences)} differences")
        return "".join(f"{line}\n" for line in lines)

    def to_object(self) -> Object:
        return {
            "caller": self.caller,
            "counts": self.counts,
            "differences": [asdict(difference) for difference in self.differences],
        }


def to_json(verifications: Iterable[Verification]) -> str:
    return json.dumps([one.to_object() for one in verifications], indent=2) + "\n"


def verify(
    caller: str,
    theirs: Reader,
    ours: Reader,
    collections: Sequence[Shown],
    sample: int,
    progress: Progress = no_progress,
) -> Verification:
    """Compare what a caller sees of Neutron and of ours; `sample`: objects of a collection whose parts are compared."""
    result = Verification(caller)
    for shown in collections:
        path = shown.path
        pages, own_pages = _pages(theirs, shown), _pages(ours, shown)
        if pages is None:  # Neutron does not serve it
            continue
        if own_pages is None:
            result.differences.append(Difference(path, "*", "", "present", "not served"))
            continue
        sampled: list[Object] = []
        read = 0
        pending: tuple[dict[str, Object], dict[str, Object]] = {}, {}
        for page, own_page in zip_longest(pages, own_pages, fillvalue=list[Object]()):
            read += len(page)
            sampled += page[: max(0, sample - len(sampled))] if shown.parts else ()
            pending[0].update((key_of(one), one) for one in page)
            pending[1].update((key_of(one), one) for one in own_page)
            both = pending[0].keys() & pending[1].keys()
            result.differences += compare(
                {path: [pending[0].pop(key) for key in sorted(both)]},
                {path: [pending[1].pop(key) for key in sorted(both)]},
            )
            progress(f"verify: {path}", read, read + 1)
        result.differences += compare({path: [*pending[0].values()]}, {path: [*pending[1].values()]})
        result.differences += _parts(theirs, ours, shown, sampled)
        result.counts[path] = read
        progress(f"verify: {path}", read, read)
    return result


def _pages(reader: Reader, shown: Shown) -> Iterator[list[Object]] | None:
    """The pages of a collection; None if the server does not have it. Objects without an id come in one page."""
    key = shown.key or shown.path
    first = reader.page(shown.path, key)
    if first is None:
        return None

    def pages(page: list[Object]) -> Iterator[list[Object]]:
        while page:
            yield page
            if "id" not in page[-1]:
                return
            page = reader.page(shown.path, key, str(page[-1]["id"])) or []

    return pages(first)


def _parts(theirs: Reader, ours: Reader, shown: Shown, sampled: Iterable[Object]) -> Iterator[Difference]:
    """Compare the collections below some objects."""
    for parent in sampled:
        for part, key in shown.parts:
            path = part.format(id=parent["id"])
            found = theirs.page(path, key)
            if found:  # ports that are no instance's have no bindings
                yield from compare({path: found}, {path: ours.page(path, key) or []})
