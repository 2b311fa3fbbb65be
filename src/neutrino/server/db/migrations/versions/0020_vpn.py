"""Tables of VPN services, their policies, endpoint groups and IPsec site connections."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _reference(name: str, table: str, *, cascade: bool = False, **options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def _object() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", Id, primary_key=True),
        *_text(255, "project_id", index=True),
        *_text(255, "name", "description"),
        sa.Column("revision_number", sa.Integer, nullable=False),
    ]


def _policy(*names: str) -> list[sa.Column[Any]]:
    return [*_object(), *_text(32, *names), sa.Column("lifetime", Json, nullable=False)]


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[Any]]:
    algorithms = ("auth_algorithm", "encryption_algorithm")
    return {
        "ikepolicies": _policy(*algorithms, "phase1_negotiation_mode", "ike_version", "pfs"),
        "ipsecpolicies": _policy("transform_protocol", *algorithms, "encapsulation_mode", "pfs"),
        "vpn_endpoint_groups": [*_object(), *_text(16, "type"), sa.Column("endpoints", Json, nullable=False)],
        "vpn_endpoint_subnets": [
            _reference("endpoint_group_id", "vpn_endpoint_groups", cascade=True, primary_key=True, index=False),
            _reference("subnet_id", "subnets", primary_key=True),
        ],
        "vpnservices": [
            *_object(),
            _reference("router_id", "routers"),
            _reference("subnet_id", "subnets", nullable=True),
            sa.Column("flavor_id", Id, nullable=True),
            sa.Column("admin_state_up", sa.Boolean, nullable=False),
            *_text(16, "status"),
        ],
        "ipsec_site_connections": [
            *_object(),
            _reference("vpnservice_id", "vpnservices"),
            _reference("ikepolicy_id", "ikepolicies"),
            _reference("ipsecpolicy_id", "ipsecpolicies"),
            _reference("local_ep_group_id", "vpn_endpoint_groups", nullable=True),
            _reference("peer_ep_group_id", "vpn_endpoint_groups", nullable=True),
            *_text(255, "peer_address", "peer_id", "local_id", "psk"),
            sa.Column("peer_cidrs", Json, nullable=False),
            sa.Column("dpd", Json, nullable=False),
            sa.Column("mtu", sa.Integer, nullable=False),
            *_text(16, "initiator", "auth_mode", "route_mode", "status"),
            sa.Column("admin_state_up", sa.Boolean, nullable=False),
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
