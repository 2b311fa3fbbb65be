"""Credentials of hosts and the roles they allow. A credential is shown once; the database keeps its SHA-256."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.errors import OperatorError
from neutrino.model.roles import ROLES, parse_roles
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import now

KIND = "host_credential"  # in the change log, without an id: feed processes read all credentials again


@dataclass(frozen=True, slots=True)
class HostCredential:
    digest: str
    roles: tuple[str, ...]  # that the host may have
    created_at: str


@dataclass(frozen=True)
class Credentials:
    db: Database

    @retried
    def add(self, host: str, roles: Sequence[str] = ROLES) -> str:
        """Create the credential of a new host, for these roles."""
        check_name(host)
        credential, row = _new(host)
        row["roles"] = ",".join(parse_roles(",".join(roles)))
        with self.db.read() as connection:
            if (
                connection.execute(
                    sa.select(t.host_credentials.c.host).where(t.host_credentials.c.host == host)
                ).first()
                is not None
            ):
                raise OperatorError(f"host {host} has a credential: rotate it, or remove the host")
        with self.db.transaction() as tx:
            # Not in the change log: feed processes look an unknown credential up when the host logs in.
            tx.insert(t.host_credentials, [row])
        return credential

    def rotate(self, host: str) -> str:
        """Replace a host's credential, with the same roles; the old one is invalid at once."""
        credential, row = _new(host)
        self._change(host, sa.update(t.host_credentials).values(row))
        return credential

    def set_roles(self, host: str, roles: Sequence[str]) -> None:
        """Set a host's roles. The feed closes its connections: it reconnects and is compared anew."""
        self._change(host, sa.update(t.host_credentials).values(roles=",".join(parse_roles(",".join(roles)))))

    def remove(self, host: str) -> None:
        self._change(host, sa.delete(t.host_credentials), deleted=True)

    @retried
    def _change(self, host: str, statement: sa.Update | sa.Delete, *, deleted: bool = False) -> None:
        with self.db.transaction() as tx:
            if not tx.execute(statement.where(t.host_credentials.c.host == host)).rowcount:
                raise OperatorError(f"there is no host {host}")
            tx.record(KIND, "-", deleted=deleted)

    def known(self) -> Mapping[str, HostCredential]:
        """All credentials by host."""
        with self.db.read() as connection:
            rows = connection.execute(sa.select(t.host_credentials).order_by(t.host_credentials.c.host))
            return {row.host: HostCredential(row.digest, _roles(row.roles), row.created_at) for row in rows}


def digest(credential: str) -> str:
    # Without salt and stretching: 256 random bits cannot be guessed, and every login of every host computes it.
    return hashlib.sha256(credential.encode()).hexdigest()


def check_name(host: str) -> None:
    if not 0 < len(host) <= 255 or not host.isascii() or not host.isprintable() or " " in host:
        raise OperatorError(
            f"{host!r} is not a valid host name: printable ASCII without spaces, at most 255 characters"
        )


def _roles(text: str) -> tuple[str, ...]:
    named = text.split(",")
    return tuple(role for role in ROLES if role in named)


def _new(host: str) -> tuple[str, dict[str, str]]:
    credential = secrets.token_urlsafe(32)
    return credential, {"host": host, "digest": digest(credential), "created_at": now()}
