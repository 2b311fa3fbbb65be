"""Selects rows of some objects, or of all, in statements with a bounded number of ids, and builds values from them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from sys import intern
from typing import TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.state import FixedIp
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup, read
from neutrino.server.db.sql import Column, Condition, Expression, NamedRow, Selection
from neutrino.server.ipam.delegated import in_provisional

Ids = Sequence[str] | None  # None: all
Statement = RowsLookup | Selection
MAX_IDS = 1000  # databases bound the number of parameters of a statement
# Numbers of ids for which a query has a text; others are filled up. Making a text takes longer than executing it.
# Up to 128: statements of a thousand ids took 50 MB of the feed process, and were executed no faster than several of 128.
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_NAMES = [f"id_{i}" for i in range(_SIZES[-1])]

S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V")
texts = msgspec.json.Decoder(tuple[str, ...])
fixed_ips = msgspec.json.Decoder(tuple[FixedIp, ...])


def select(cls: type[msgspec.Struct], table: sa.Table, *more: Expression) -> Selection:
    """Selects the table's columns that are fields of the type, and `more`, such as JSON columns, which need decoding."""
    names = cls.__struct_fields__
    columns = [column for column in table.c if column.name in names and column.type is not t.Json]
    revision = [table.c.revision_number.label("revision")] if "revision" in names else []
    return sa.select(*columns, *revision, *more)


def read_rows(
    connection: Connection, statement: Statement, column: Column, ids: Iterable[str] | None
) -> Iterator[NamedRow]:
    """The statement's rows with these values of a column; None: all rows."""
    if ids is None:
        all_rows = statement.statement if isinstance(statement, RowsLookup) else statement
        for rows in connection.execute(all_rows).partitions(MAX_IDS):
            yield from statement.named(rows) if isinstance(statement, RowsLookup) else rows
        return
    values = list(ids)
    most = _SIZES[-1] if isinstance(statement, RowsLookup) else MAX_IDS
    for start in range(0, len(values), most):
        some = values[start : start + most]
        if isinstance(statement, RowsLookup):
            size = next(each for each in _SIZES if each >= len(some))
            some += some[-1:] * (size - len(some))
            yield from read(connection, _among(statement, column, size)(**dict(zip(_NAMES, some, strict=False))))
        else:
            yield from connection.execute(statement.where(column.in_(some)))


@cache
def _among(query: RowsLookup, column: Column, size: int) -> RowsLookup:
    assert isinstance(query.statement, sa.Select), "a union has no rows of one column"
    return RowsLookup(query.statement.where(column.in_(_parameters(column.type)[:size])))


@cache
def _parameters(type_: sa.types.TypeEngine[object]) -> list[sa.BindParameter[object]]:
    """One set of parameters for the statements of all sizes: each takes more than a kilobyte."""
    return [sa.bindparam(name, type_=type_) for name in _NAMES]


def one_of(column: Column, values: Iterable[str]) -> Condition:
    """A condition with constants. Unlike with `in_`, its text does not depend on values, so its statement can be kept."""
    return sa.or_(*(column == value for value in values))


def read_ids(connection: Connection, statement: Statement, column: Column, ids: Iterable[str] | None) -> set[str]:
    """The first column of these rows."""
    return {row[0] for row in read_rows(connection, statement, column, ids)}


def decode_fixed_ips(text: str) -> tuple[FixedIp, ...]:
    """A port's fixed IPs without those on subnets that wait for a delegated prefix: these are not usable yet."""
    found = fixed_ips.decode(text)
    if '"::' in text:
        found = tuple(each for each in found if not in_provisional(each.ip_address))
    # The ids of subnets are interned: most of a large cloud's memory is ports, and thousands have the same subnet.
    return tuple(FixedIp(intern(each.subnet_id), each.ip_address) for each in found)


def build(cls: type[S], row: NamedRow, **values: object) -> S:
    """A value whose fields are the given values, or else the row's columns of the same names."""
    names, take = _taken(cls, row._fields, tuple(values))
    return cls(**dict(zip(names, take(row), strict=False)), **values)


@cache
def _taken(
    cls: type[msgspec.Struct], columns: tuple[str, ...], given: tuple[str, ...]
) -> tuple[tuple[str, ...], Callable[[NamedRow], Sequence[object]]]:
    """The fields that a row has, and what takes them out of it. `row._mapping` takes several times as long."""
    names = tuple(name for name in cls.__struct_fields__ if name in columns and name not in given)
    places = [columns.index(name) for name in names]
    if len(places) > 1:  # of one place an itemgetter returns the value alone
        return names, itemgetter(*places)
    return names, lambda row: [row[place] for place in places]


def grouped(
    connection: Connection, statement: Statement, column: Column, ids: Ids, value: Callable[[NamedRow], V]
) -> defaultdict[str, list[V]]:
    """The values of these rows by the column, in the order of the rows."""
    found: defaultdict[str, list[V]] = defaultdict(list)
    for row in read_rows(connection, statement, column, ids):
        found[getattr(row, column.name)].append(value(row))
    return found
