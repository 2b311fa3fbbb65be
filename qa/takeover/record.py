"""Record the database and the API answers of a real Neutron: `python -m qa.takeover.record`.

Builds a cloud with every kind of object through Neutron's API (`cloud.py`), on MariaDB, and writes to `tests/data/takeover`
`database.jsonl`, a line for each table with its columns, key and rows, and `answers.json`, the collections as an
administrator sees them. Neutron is installed by `scripts/setup neutron`. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import TINYINT
from sqlalchemy.engine import Connection

from neutrino.takeover.comparison import read_answers
from neutrino.takeover.families import collections
from qa.bench import databases
from qa.bench.neutron import processes
from qa.takeover import agents, cloud, neutron
from tests.support.rabbitmq import RabbitMQ

DIRECTORY = processes.ROOT / "tests" / "data" / "takeover"
_KINDS = (
    (sa.Boolean, "boolean"),
    (sa.DateTime, "datetime"),
    (sa.Integer, "integer"),
    (sa.Float, "float"),
    (sa.Text, "text"),
    (sa.LargeBinary, "binary"),
    (sa.String, "string"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="directory to write to (default: %(default)s)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="neutrino-record-") as directory, ExitStack() as stack:
        mariadb = stack.enter_context(databases.running("mariadb"))
        broker = stack.enter_context(RabbitMQ())
        mariadb.create_database("neutron")
        url = mariadb.url("neutron")
        place = neutron.write_files(Path(directory) / "neutron", url, broker.url)
        _say("neutron-db-manage upgrade heads")
        processes.migrate(place)
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            agents.register(connection)
        _say("starting Neutron")
        with processes.running(place) as (running, _pids):
            _say("building the cloud")
            built = cloud.build(running.url)
            for line in built.refused:
                _say(f"refused: {line}")
            with engine.begin() as connection:
                agents.report(connection)
            read_answers(
                built.admin.get, collections()
            )  # lists create default groups, which the first ones do not show
            answers = read_answers(built.admin.get, collections())
        with engine.connect() as connection:
            lines = list(dumped(connection))
        engine.dispose()
    (out / "database.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (out / "answers.json").write_text(_lines(answers), encoding="utf-8")
    _say(f"{len(lines)} tables, {sum(map(len, answers.values()))} objects in {out}")
    return 1 if built.refused else 0


def dumped(connection: Connection) -> Iterator[str]:
    """Each table as a line of JSON."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    for table in sorted(metadata.tables.values(), key=lambda one: one.name):
        rows = connection.execute(sa.select(table)).all()
        line = {
            "table": table.name,
            "columns": {column.name: kind_of(column) for column in table.columns},
            "key": [column.name for column in table.primary_key.columns],
            "rows": [[_value(value) for value in row] for row in rows],
        }
        yield json.dumps(line, separators=(",", ":"))


def kind_of(column: sa.Column[object]) -> str:
    if isinstance(column.type, TINYINT) and column.type.display_width == 1:
        return "boolean"
    return next(kind for type_, kind in _KINDS if isinstance(column.type, type_))


def _lines(answers: Mapping[str, Sequence[object]]) -> str:
    """JSON with an object on each line, so that a new recording can be read as a difference."""
    parts = (f"{json.dumps(path)}: [\n" + ",\n".join(map(_text, some)) + "\n]" for path, some in answers.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.decode() if isinstance(value, bytes) else value


def _say(text: str) -> None:
    print(f"record: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
