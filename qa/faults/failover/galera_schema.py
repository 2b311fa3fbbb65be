"""Servers on different nodes that create the schema at once: locks of Galera hold on their node only."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from qa.bench.workbench import progress
from qa.faults.failover.cloud import Result
from qa.faults.failover.galera import DATABASE, Cluster
from qa.faults.failover.ledger import NO_FIGURES
from tests.support.launcher import PROGRAM
from tests.support.neutrino import configuration

SECONDS = 300.0


def run(name: str, galera: Cluster) -> Result:
    """`neutrino db upgrade` of an empty database, on every node at once."""
    database = "schema_empty"
    galera.nodes[0].query(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    urls = [node.url().replace(f"/{DATABASE}?", f"/{database}?") for node in galera.nodes]
    progress(f"{name}: {len(urls)} upgrades at once")
    began = time.monotonic()
    wrong = _upgrade(urls)
    took = time.monotonic() - began
    for node, url in zip(galera.nodes, urls, strict=True):
        db = Database(url)
        if (found := schema.version(db)) != schema.HEAD:
            wrong.append(f"node{node.number} has schema version {found}")
        db.close()
    return Result(name, NO_FIGURES, took, wrong)


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
