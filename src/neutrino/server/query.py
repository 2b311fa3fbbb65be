"""A list request: filters, fields, order and page, parsed by the API and answered by the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sort:
    key: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    filters: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    fields: tuple[str, ...] | None = None  # None: all of them
    sorts: tuple[Sort, ...] = ()
    limit: int | None = None
    marker: str | None = None
    reverse: bool = False
    everyone: bool = False  # the caller may see the objects of all projects
    is_ordered: bool = False  # sorted by key even without a limit or a marker

    def text(self, name: str, default: str) -> str:
        """The first value of a filter."""
        return str(next(iter(self.filters.get(name, ())), default))


EVERYTHING = Query(everyone=True)
