"""QoS policies and rules, with foreign keys from networks, ports, floating IPs and router gateways."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TABLE: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")
_PARAMETERS = ("max_kbps", "max_burst_kbps", "min_kbps", "max_kpps", "max_burst_kpps", "min_kpps", "dscp_mark")


def upgrade() -> None:
    op.create_table(
        "qos_policies",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(255), nullable=True),
        sa.Column("created_at", sa.String(20), nullable=False),
        sa.Column("updated_at", sa.String(20), nullable=False),
        sa.Column("revision_number", sa.Integer, nullable=False),
        sa.Column("tags", _JSON, nullable=False),
        sa.Column("is_default", sa.Boolean, nullable=False),
        sa.Column("rules", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qos_policies"),
        **_TABLE,
    )
    op.create_index("ix_qos_policies_project_id", "qos_policies", ["project_id"])
    op.create_table(
        "default_qos_policies",
        sa.Column("project_id", sa.String(255), nullable=False),
        _policy("default_qos_policies", "qos_policy_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_default_qos_policies"),
        **_TABLE,
    )
    op.create_index("ix_default_qos_policies_qos_policy_id", "default_qos_policies", ["qos_policy_id"])
    op.create_table(
        "qos_rules",
        sa.Column("id", sa.String(36), nullable=False),
        _policy("qos_rules", "qos_policy_id"),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        *(sa.Column(name, sa.Integer, nullable=True) for name in _PARAMETERS),
        sa.PrimaryKeyConstraint("id", name="pk_qos_rules"),
        sa.UniqueConstraint("qos_policy_id", "type", "direction", name="uq_qos_rules_qos_policy_id_type_direction"),
        **_TABLE,
    )
    op.create_index("ix_qos_rules_qos_policy_id", "qos_rules", ["qos_policy_id"])
    # The columns existed without a foreign key and were always NULL. That of a port's network is read from the network.
    op.drop_column("ports", "qos_network_policy_id")
    for table in ("networks", "ports"):
        op.drop_column(table, "qos_policy_id")
    for table, column in (
        ("networks", "qos_policy_id"),
        ("ports", "qos_policy_id"),
        ("floatingips", "qos_policy_id"),
        ("routers", "gw_qos_policy_id"),
    ):
        _add_reference(table, column)


def _policy(table: str, column: str) -> sa.Column[str]:
    key = sa.ForeignKey("qos_policies.id", name=f"fk_{table}_{column}", ondelete="CASCADE")
    return sa.Column(column, sa.String(36), key, nullable=False)


def _add_reference(table: str, column: str) -> None:
    name = f"fk_{table}_{column}"
    if op.get_bind().dialect.name == "sqlite":  # it adds a foreign key only together with its column
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN {column} VARCHAR(36) CONSTRAINT {name} REFERENCES qos_policies (id)"
        )
    else:
        op.add_column(table, sa.Column(column, sa.String(36), nullable=True))
    op.create_index(f"ix_{table}_{column}", table, [column])
    if op.get_bind().dialect.name != "sqlite":
        op.create_foreign_key(name, table, "qos_policies", [column], ["id"])
