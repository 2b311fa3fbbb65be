"""The tables of the database.

One row is one API object: attributes that are lists or dictionaries are JSON text in it, so that showing or listing objects
reads one table. Narrow tables next to it hold what must be unique or is searched by (addresses, segments, tags, group
memberships); they are written in the same transaction, and constraints are on them.
"""

from neutrino.server.db.tables.access import quota_usages, quotas, rbac_policies, tags
from neutrino.server.db.tables.changes import change_head, changes
from neutrino.server.db.tables.columns import Json, counted_rows, histories, history_of, metadata, quota_of
from neutrino.server.db.tables.drivers import journal, network_attributes, port_attributes, subnet_attributes
from neutrino.server.db.tables.hosts import agents, dvr_host_macs, host_credentials, host_queries, server_processes
from neutrino.server.db.tables.networks import (
    address_scopes,
    network_dhcp_agents,
    network_segment_ranges,
    network_segments,
    networks,
    segment_range_writes,
    subnetpools,
    subnets,
)
from neutrino.server.db.tables.ports import (
    ip_allocations,
    port_bindings,
    port_security_groups,
    ports,
    provisioning_blocks,
)
from neutrino.server.db.tables.security_groups import (
    default_security_group_rules,
    default_security_groups,
    security_group_rules,
    security_groups,
    security_groups_default_statefulness,
)
from neutrino.server.db.tables.takeovers import takeovers
