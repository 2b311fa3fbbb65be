"""Tables of BGP speakers, their peers, networks and agents."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

Id = sa.String(36)


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _reference(name: str, table: str, **options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def _identity() -> list[sa.Column[Any]]:
    return [sa.Column("id", Id, primary_key=True), *_text(255, "project_id", index=True), *_text(255, "name")]


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[Any]]:
    return {
        "bgp_speakers": [
            *_identity(),
            sa.Column("local_as", sa.BigInteger, nullable=False),
            sa.Column("ip_version", sa.Integer, nullable=False),
            sa.Column("advertise_floating_ip_host_routes", sa.Boolean, nullable=False),
            sa.Column("advertise_tenant_networks", sa.Boolean, nullable=False),
            sa.Column("revision_number", sa.Integer, nullable=False),
        ],
        "bgp_peers": [
            *_identity(),
            *_text(64, "peer_ip"),
            sa.Column("remote_as", sa.BigInteger, nullable=False),
            *_text(16, "auth_type"),
            *_text(255, "password", nullable=True),
        ],
        "bgp_speaker_peers": [
            _reference("bgp_speaker_id", "bgp_speakers", primary_key=True, index=False),
            _reference("bgp_peer_id", "bgp_peers", primary_key=True),
            *_text(64, "peer_ip"),
            sa.UniqueConstraint("bgp_speaker_id", "peer_ip"),
        ],
        "bgp_speaker_networks": [
            _reference("bgp_speaker_id", "bgp_speakers", primary_key=True, index=False),
            _reference("network_id", "networks", primary_key=True),
        ],
        "bgp_speaker_agents": [
            _reference("agent_id", "agents", primary_key=True, index=False),
            _reference("bgp_speaker_id", "bgp_speakers"),
        ],
    }


def upgrade() -> None:
    # MariaDB commits every statement: tables and indexes of an attempt that was interrupted exist already.
    for name, parts in _tables().items():
        inspector = sa.inspect(op.get_bind())
        if not inspector.has_table(name):
            op.create_table(name, *parts, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
            continue
        existing = {index["name"] for index in inspector.get_indexes(name)}
        for column in parts:
            if isinstance(column, sa.Column) and column.index and f"ix_{name}_{column.name}" not in existing:
                op.create_index(f"ix_{name}_{column.name}", name, [column.name])
