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
    # MariaDB commits every statement: what an attempt that was interrupted has done already is skipped.
    _create_table(
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
    )
    _create_index("qos_policies", "project_id")
    _create_table(
        "default_qos_policies",
        sa.Column("project_id", sa.String(255), nullable=False),
        _policy("default_qos_policies", "qos_policy_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_default_qos_policies"),
    )
    _create_index("default_qos_policies", "qos_policy_id")
    _create_table(
        "qos_rules",
        sa.Column("id", sa.String(36), nullable=False),
        _policy("qos_rules", "qos_policy_id"),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        *(sa.Column(name, sa.Integer, nullable=True) for name in _PARAMETERS),
        sa.PrimaryKeyConstraint("id", name="pk_qos_rules"),
        sa.UniqueConstraint("qos_policy_id", "type", "direction", name="uq_qos_rules_qos_policy_id_type_direction"),
    )
    _create_index("qos_rules", "qos_policy_id")
    # That of a port's network is read from the network.
    if "qos_network_policy_id" in _columns("ports"):
        op.drop_column("ports", "qos_network_policy_id")
    for table, column in (
        ("networks", "qos_policy_id"),
        ("ports", "qos_policy_id"),
        ("floatingips", "qos_policy_id"),
        ("routers", "gw_qos_policy_id"),
    ):
        if not _has_foreign_key(table, column):
            # Columns of this name existed without a foreign key and were always NULL.
            if column in _columns(table):
                op.drop_column(table, column)
            _add_reference(table, column)
        _create_index(table, column)


def _inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())  # a new one each time: it caches what it has read


def _columns(table: str) -> set[str]:
    return {column["name"] for column in _inspector().get_columns(table)}


def _has_foreign_key(table: str, column: str) -> bool:
    return any(key["constrained_columns"] == [column] for key in _inspector().get_foreign_keys(table))


def _create_table(name: str, *columns: sa.schema.SchemaItem) -> None:
    if not _inspector().has_table(name):
        op.create_table(name, *columns, **_TABLE)


def _create_index(table: str, column: str) -> None:
    name = f"ix_{table}_{column}"
    if name not in {index["name"] for index in _inspector().get_indexes(table)}:
        op.create_index(name, table, [column])


def _policy(table: str, column: str) -> sa.Column[str]:
    key = sa.ForeignKey("qos_policies.id", name=f"fk_{table}_{column}", ondelete="CASCADE")
    return sa.Column(column, sa.String(36), key, nullable=False)


def _add_reference(table: str, column: str) -> None:
    name = f"fk_{table}_{column}"
    if op.get_bind().dialect.name == "sqlite":  # it adds a foreign key only together with its column
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN {column} VARCHAR(36) CONSTRAINT {name} REFERENCES qos_policies (id)"
        )
        return
    op.add_column(table, sa.Column(column, sa.String(36), nullable=True))
    # Before the foreign key, for which MariaDB would else create an index of its own.
    _create_index(table, column)
    op.create_foreign_key(name, table, "qos_policies", [column], ["id"])
