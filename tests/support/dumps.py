"""Backups of databases and their restoration, with the commands of docs/operator-guide.md."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.engine import URL, make_url


def dump(url: str, path: Path) -> None:
    """Write a dump of the database, in SQL."""
    where = make_url(url)
    if where.get_backend_name() == "sqlite":
        with sqlite3.connect(f"file:{where.database}?mode=ro", uri=True) as connection:
            path.write_text("\n".join(connection.iterdump()))
    elif where.get_backend_name() == "postgresql":
        words = ["pg_dump", "--no-owner", "--no-privileges", *_postgres(where)]
        path.write_text(_run(words, {"PGPASSWORD": where.password or ""}))
    else:
        words = ["mariadb-dump", "--single-transaction", *_mariadb(where)]
        path.write_text(_run(words, {"MYSQL_PWD": where.password or ""}))


def restore(path: Path, url: str) -> None:
    """Fill an empty database from a dump."""
    where = make_url(url)
    text = path.read_text()
    if where.get_backend_name() == "sqlite":
        with sqlite3.connect(str(where.database)) as connection:
            connection.executescript(text)
    elif where.get_backend_name() == "postgresql":
        words = ["psql", "--quiet", "--set", "ON_ERROR_STOP=1", *_postgres(where)]
        _run(words, {"PGPASSWORD": where.password or ""}, text)
    else:
        _run(["mariadb", *_mariadb(where)], {"MYSQL_PWD": where.password or ""}, text)


def _postgres(where: URL) -> Sequence[str]:
    return [
        "--host",
        where.host or "",
        "--port",
        str(where.port),
        "--username",
        where.username or "",
        where.database or "",
    ]


def _mariadb(where: URL) -> Sequence[str]:
    address = [f"--host={where.host}", f"--port={where.port}", f"--user={where.username}"]
    return ["--no-defaults", *address, "--default-character-set=utf8mb4", where.database or ""]


def _run(words: Sequence[str], environment: Mapping[str, str], text: str | None = None) -> str:
    if words[0].startswith("mariadb") and "--no-defaults" in words:  # must be the first option
        words = [words[0], "--no-defaults", *(word for word in words[1:] if word != "--no-defaults")]
    done = subprocess.run(
        words, input=text, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{words[0]}: {done.stderr}"
    return done.stdout
