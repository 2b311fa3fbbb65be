"""Which credential is which host's. A credential is shown once; the database has only its SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.clock import now
from neutrino.server.db.session import Database

KIND = "host_credential"  # in the change log, without a name: whoever serves hosts looks again
_c = t.host_credentials.c


class UnknownHost(LookupError):
    """There is no credential of this host."""


class HostExists(ValueError):
    """The host has a credential already."""


class BadName(ValueError):
    """Not a host's name."""


class Credentials:
    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, host: str) -> str:
        """A new host's credential."""
        check_name(host)
        credential, row = _new(host)

        def attempt() -> None:
            with self._db.read() as connection:
                if connection.execute(sa.select(_c.host).where(_c.host == host)).first() is not None:
                    raise HostExists(f"host {host} has a credential: rotate it, or remove the host")
            with self._db.transaction() as tx:
                tx.insert(t.host_credentials, [row])

        self._db.retrying(attempt)
        return credential

    def rotate(self, host: str) -> str:
        """Another credential for a host; the old one is of no use from now on."""
        credential, row = _new(host)

        def attempt() -> None:
            with self._db.transaction() as tx:
                if not tx.execute(sa.update(t.host_credentials).where(_c.host == host).values(row)).rowcount:
                    raise UnknownHost(f"there is no host {host}")
                tx.record(KIND, "-", 0)

        self._db.retrying(attempt)
        return credential

    def remove(self, host: str) -> None:
        def attempt() -> None:
            with self._db.transaction() as tx:
                if not tx.execute(sa.delete(t.host_credentials).where(_c.host == host)).rowcount:
                    raise UnknownHost(f"there is no host {host}")
                tx.record(KIND, "-", 0, deleted=True)

        self._db.retrying(attempt)

    def all(self) -> list[tuple[str, str]]:
        """Every host with the time when its credential was made."""
        with self._db.read() as connection:
            rows = connection.execute(sa.select(_c.host, _c.created_at).order_by(_c.host))
            return [(row.host, row.created_at) for row in rows]

    def digests(self) -> Mapping[str, str]:
        with self._db.read() as connection:
            return {row.host: row.digest for row in connection.execute(sa.select(_c.host, _c.digest))}

    def check(self, host: str, credential: str) -> str | None:
        """The digest by which this host is known, if the credential is its own."""
        with self._db.read() as connection:
            kept = connection.execute(sa.select(_c.digest).where(_c.host == host)).scalar()
        given = digest(credential)
        # An unknown host takes as long as a known one.
        is_right = hmac.compare_digest(given, kept if kept is not None else digest(""))
        return given if is_right and kept is not None else None


def digest(credential: str) -> str:
    return hashlib.sha256(credential.encode()).hexdigest()


def check_name(host: str) -> None:
    if not 0 < len(host) <= 255 or not host.isascii() or not host.isprintable() or " " in host:
        raise BadName(f"{host!r} is no host's name: printable ASCII without spaces, at most 255 characters")


def _new(host: str) -> tuple[str, dict[str, str]]:
    credential = secrets.token_urlsafe(32)
    return credential, {"host": host, "digest": digest(credential), "created_at": now()}
