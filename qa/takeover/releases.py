"""Import from the schema of each release of Neutron: `python -m qa.takeover.releases [--database mariadb|postgresql]`.

Neutron's own migrations, which Neutron 29 has all of, create the schema of a release; the recorded rows
(tests/data/takeover) are inserted as far as it has their tables and columns. Then everything is imported, twice, into a
database of ours. PostgreSQL needs psycopg2, which the lock of Neutron does not have: PYTHONPATH names its directory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import sqlalchemy as sa

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.takeover import heads, run
from neutrino.takeover.source import parse_url
from qa.bench import databases
from qa.bench.neutron import processes
from qa.bench.neutron.configuration import Place
from qa.takeover import neutron
from tests.support.neutron_database import recorded_tables, recorded_value

_LAST_OF_POSTGRESQL = "2025.1"  # the next migration has a statement that only MySQL and MariaDB know
_UNCHECKED = {"mysql": "SET foreign_key_checks = 0", "postgresql": "SET session_replication_role = replica"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("mariadb", "postgresql"), default="mariadb")
    name = parser.parse_args().database
    failed = 0
    with tempfile.TemporaryDirectory(prefix="neutrino-releases-") as directory, databases.running(name) as server:
        server.create_database("neutron")
        url = sa.make_url(server.url("neutron"))
        theirs = url.set(drivername="postgresql+psycopg2") if name == "postgresql" else url
        place = neutron.write_files(
            Path(directory) / "neutron", theirs.render_as_string(hide_password=False), "amqp://none/"
        )
        engine = sa.create_engine(url)
        _migrate(place, heads.CONTRACT)
        for revision, release in heads.RELEASES.items():
            if name == "postgresql" and release > _LAST_OF_POSTGRESQL:
                break
            _migrate(place, revision)
            inserted = fill(engine)
            failed += _try(Path(directory), url, release, inserted)
            empty(engine)
        engine.dispose()
    return 1 if failed else 0


def _migrate(place: Place, revision: str) -> None:
    files = ("--config-file", place.neutron_conf, "--config-file", place.ml2_conf)
    command = (processes.VENV / "bin" / "neutron-db-manage", "--subproject", "neutron", *files, "upgrade", revision)
    environment = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"neutron-db-manage upgrade {revision}: {done.stderr.decode()[-2000:]}")


def fill(engine: sa.Engine) -> int:
    """Insert the recorded rows into tables that exist, without columns that do not; the number of rows."""
    metadata = sa.MetaData()
    metadata.reflect(engine, resolve_fks=False)
    number = 0
    with engine.begin() as connection:
        connection.execute(sa.text(_UNCHECKED[engine.url.get_backend_name()]))
        for recorded in recorded_tables():
            table = metadata.tables.get(recorded["table"])
            if table is None or table.name.startswith(heads.VERSION_TABLE):
                continue
            connection.execute(sa.delete(table))
            kinds = recorded["columns"]
            rows = [
                {
                    column: recorded_value(value, kinds[column])
                    for column, value in zip(kinds, row, strict=True)
                    if column in table.c
                }
                for row in recorded["rows"]
            ]
            if rows:
                connection.execute(sa.insert(table), rows)
            number += len(rows)
    return number


def empty(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    metadata.reflect(engine, resolve_fks=False)
    with engine.begin() as connection:
        connection.execute(sa.text(_UNCHECKED[engine.url.get_backend_name()]))
        for table in metadata.tables.values():
            if not table.name.startswith(heads.VERSION_TABLE):
                connection.execute(sa.delete(table))


def _try(directory: Path, url: sa.URL, release: str, inserted: int) -> int:
    """Import twice; 1 if it is refused, finds another release, or writes something the second time."""
    db = Database(f"sqlite:///{directory / release}.sqlite", sqlite_durable=False)
    try:
        schema.ensure(db)
        address = parse_url(url.render_as_string(hide_password=False))
        first = run.run(address, db, run.Options("example.org."))
        second = run.run(address, db, run.Options("example.org."))
    finally:
        db.close()
    right = first.release == release and not first.deviations.refused and first.written > 0 and second.written == 0
    print(
        f"{release}: {inserted} rows, {first.written} objects written, then {second.written}: {'ok' if right else 'FAILED'}"
    )
    for (action, kind), number in Counter((one.action, one.kind) for one in first.deviations).items():
        print(f"  {action}: {kind}: {number}")
    sys.stdout.flush()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
