"""Servers on different nodes that create or upgrade the schema at once: locks of Galera hold on their node only."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from alembic import command

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from qa.bench.workbench import progress
from qa.faults.failover.cloud import Result
from qa.faults.failover.galera import DATABASE, Cluster
from qa.faults.failover.ledger import NO_FIGURES
from tests.support import schema_0001
from tests.support.neutrino import PROGRAM, configuration

SECONDS = 300.0


def run(name: str, galera: Cluster) -> Result:
    """`neutrino db upgrade` on every node at once: of an empty database, and of one with the first schema."""
    wrong: list[str] = []
    took = 0.0
    for kind in ("empty", "first"):
        database = f"schema_{kind}"
        galera.nodes[0].query(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        urls = [node.url().replace(f"/{DATABASE}?", f"/{database}?") for node in galera.nodes]
        if kind == "first":
            _create_first(urls[0])
        progress(f"{name}: {len(urls)} upgrades at once, database: {kind}")
        began = time.monotonic()
        wrong += [f"{database}: {text}" for text in _upgrade(urls)]
        took = max(took, time.monotonic() - began)
        for node, url in zip(galera.nodes, urls, strict=True):
            db = Database(url)
            if (found := schema.version(db)) != schema.HEAD:
                wrong.append(f"{database}: node{node.number} has schema version {found}")
            db.close()
    return Result(name, NO_FIGURES, took, wrong)


def _create_first(url: str) -> None:
    db = Database(url)
    with db.engine().begin() as connection:
        schema_0001.create(connection)
        command.stamp(schema.alembic_config(connection), schema_0001.REVISION)
    db.close()


def _upgrade(urls: list[str]) -> list[str]:
    """Each command that fails, with its output."""
    with tempfile.TemporaryDirectory(prefix="neutrino-schema-") as place:
        running = []
        for number, url in enumerate(urls):
            file = Path(place) / f"{number}.conf"
            file.write_text(configuration({"database": {"connection": url}, "DEFAULT": {"state_path": place}}))
            argv = [str(PROGRAM), "db", "--config-file", str(file), "upgrade"]
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        try:
            outputs = [one.communicate(timeout=SECONDS)[0] for one in running]
        finally:
            for one in running:
                one.kill()
    return [
        f"upgrade {number} ended with {one.returncode}: {output.strip()[-500:]}"
        for number, (one, output) in enumerate(zip(running, outputs, strict=True))
        if one.returncode
    ]
