"""Tables of firewall rules, policies and groups (FWaaS v2)."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _flags(*names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Boolean, nullable=False, **options) for name in names]


def _reference(name: str, table: str, *, cascade: bool = False, **options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def _owner(name: str, table: str) -> sa.Column[Any]:
    return _reference(name, table, cascade=True, primary_key=True, index=False)


def _standard() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", Id, primary_key=True),
        *_text(255, "project_id", index=True),
        *_text(255, "name"),
        *_text(255, "description", nullable=True),
        *_text(20, "created_at", "updated_at"),
        sa.Column("revision_number", sa.Integer, nullable=False),
        sa.Column("tags", Json, nullable=False),
    ]


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[sa.Column[Any]]]:
    return {
        "firewall_rules": [
            *_standard(),
            *_flags("shared", index=True),
            *_flags("enabled"),
            *_text(40, "protocol", nullable=True),
            sa.Column("ip_version", sa.Integer, nullable=False),
            *_text(64, "source_ip_address", "destination_ip_address", nullable=True),
            *_text(16, "source_port", "destination_port", nullable=True),
            *_text(16, "action"),
        ],
        "firewall_policies": [
            *_standard(),
            *_flags("shared", index=True),
            *_flags("audited"),
            sa.Column("firewall_rules", Json, nullable=False),
        ],
        "firewall_policy_rules": [
            _owner("firewall_policy_id", "firewall_policies"),
            _reference("firewall_rule_id", "firewall_rules", primary_key=True),
            sa.Column("position", sa.Integer, nullable=False),
        ],
        "firewall_groups": [
            *_standard(),
            *_flags("admin_state_up"),
            *_flags("shared", index=True),
            *_flags("is_default"),
            *_text(16, "status"),
            _reference("ingress_firewall_policy_id", "firewall_policies", nullable=True),
            _reference("egress_firewall_policy_id", "firewall_policies", nullable=True),
        ],
        "firewall_group_ports": [
            _owner("port_id", "ports"),
            _reference("firewall_group_id", "firewall_groups", cascade=True),
        ],
        "firewall_group_hosts": [
            _owner("firewall_group_id", "firewall_groups"),
            *_text(255, "host", primary_key=True),
            *_text(16, "role", primary_key=True),
            sa.Column("revision", sa.Integer, nullable=False),
            *_text(16, "status"),
        ],
        "default_firewall_groups": [
            *_text(255, "project_id", primary_key=True),
            _reference("firewall_group_id", "firewall_groups", cascade=True),
        ],
    }


def upgrade() -> None:
    # MariaDB commits every statement: tables and indexes of an attempt that was interrupted exist already.
    for name, columns in _tables().items():
        inspector = sa.inspect(op.get_bind())
        if not inspector.has_table(name):
            op.create_table(name, *columns, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
            continue
        existing = {index["name"] for index in inspector.get_indexes(name)}
        for column in columns:
            if column.index and f"ix_{name}_{column.name}" not in existing:
                op.create_index(f"ix_{name}_{column.name}", name, [column.name])
