"""Templates of rules of new security groups, with the initial ones; the default of `stateful`; default networks."""

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

Id = sa.String(36)
RULES, STATEFULNESS = "default_security_group_rules", "security_groups_default_statefulness"


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _tables() -> dict[str, list[Any]]:
    return {
        RULES: [
            sa.Column("id", Id, primary_key=True),
            *_text(16, "direction", "ethertype"),
            *_text(64, "protocol", nullable=True),
            sa.Column("port_range_min", sa.Integer, nullable=True),
            sa.Column("port_range_max", sa.Integer, nullable=True),
            *_text(64, "remote_ip_prefix", nullable=True),
            sa.Column("remote_group_id", Id, nullable=True),
            sa.Column("remote_address_group_id", Id, sa.ForeignKey("address_groups.id"), nullable=True, index=True),
            *_text(255, "description"),
            sa.Column("used_in_default_sg", sa.Boolean, nullable=False),
            sa.Column("used_in_non_default_sg", sa.Boolean, nullable=False),
            *_text(255, "in_default", "in_others", nullable=True),
            sa.UniqueConstraint("in_default"),
            sa.UniqueConstraint("in_others"),
        ],
        STATEFULNESS: [
            sa.Column("id", Id, primary_key=True),
            *_text(255, "project_id", nullable=True),
            *_text(300, "scope"),
            sa.Column("stateful", sa.Boolean, nullable=False),
            sa.UniqueConstraint("scope"),
        ],
    }


def _initial_rules() -> list[dict[str, Any]]:
    """What new groups got before: all egress and, in a default group, ingress from its own members."""
    return [
        {
            "id": str(uuid.uuid4()),
            "direction": direction,
            "ethertype": ethertype,
            "remote_group_id": parent,
            "description": f"Legacy default SG rule for {direction} traffic",
            "used_in_default_sg": True,
            "used_in_non_default_sg": parent is None,
            "in_default": f"{direction} {ethertype} any - {remote}",
            "in_others": f"{direction} {ethertype} any - {remote}" if parent is None else None,
        }
        for direction, parent, remote in (("egress", None, "anywhere"), ("ingress", "PARENT", "group:PARENT"))
        for ethertype in ("IPv4", "IPv6")
    ]


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    bind = op.get_bind()
    for name, columns in _tables().items():
        if not sa.inspect(bind).has_table(name):
            op.create_table(name, *columns, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
    if "project_default" not in {column["name"] for column in sa.inspect(bind).get_columns("networks")}:
        op.add_column("networks", sa.Column("project_default", sa.Boolean, nullable=False, server_default=sa.false()))
    index = f"ix_{RULES}_remote_address_group_id"
    if index not in {found["name"] for found in sa.inspect(bind).get_indexes(RULES)}:
        op.create_index(index, RULES, ["remote_address_group_id"])
    rows = _initial_rules()
    table = sa.table(RULES, *(sa.column(name) for name in rows[0]))
    if bind.execute(sa.select(table.c.id).limit(1)).first() is None:
        op.bulk_insert(table, rows)
