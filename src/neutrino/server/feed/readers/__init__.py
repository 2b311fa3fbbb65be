"""Reads records from the database: all of them once, then those that change-log rows affect, each in few queries."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from sqlalchemy.engine import Connection

from neutrino.server.feed.change_log import Row
from neutrino.server.feed.readers.bgp import speakers_of
from neutrino.server.feed.readers.firewalls import groups_of
from neutrino.server.feed.readers.l2 import networks_of_subnets
from neutrino.server.feed.readers.metering import metered_routers
from neutrino.server.feed.readers.routers import announced_routers, distributed_routers_of, routers_of, shared_ports
from neutrino.server.feed.readers.taps import tapped_with
from neutrino.server.feed.readers.trunks import subports_of
from neutrino.server.feed.records import Records
from neutrino.server.feed.stores import Reader


def read_all(connection: Connection, readers: Mapping[str, Reader]) -> Records:
    return {source: dict(read(connection, None)) for source, read in readers.items()}


def read_changed(
    connection: Connection,
    readers: Mapping[str, Reader],
    rows: Iterable[Row],
    last_networks: Callable[[Collection[str]], Collection[str]] = lambda port_ids: (),
) -> Records:
    """The records that change-log rows affect, as they are now: at least as new as the rows.

    `last_networks` gives the networks of ports that may have been deleted meanwhile.
    """
    # The ids of records by source, as an ordered set: those named, and those whose content is derived from them.
    ids: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        ids[row.kind][row.object_id] = None
    # A deleted subnet is no longer found here: the same transaction logs its network too.
    ids["network"] |= dict.fromkeys(networks_of_subnets(connection, list(ids["subnet"])))
    # In this order: each query starts from ids that the ones before it have added.
    ports, networks, agents = list(ids["port"]), list(ids["network"]), list(ids["agent"])
    ids["router"] |= dict.fromkeys(routers_of(connection, ports, networks, agents))
    named = list(ids["bgp_speaker"])
    lost = last_networks(ports)
    ids["bgp_speaker"] |= dict.fromkeys(speakers_of(connection, list(ids["router"]), ports, lost, agents))
    ids["router"] |= dict.fromkeys(distributed_routers_of(connection, ports, lost, agents))
    ids["router"] |= dict.fromkeys(announced_routers(connection) if named else ())
    ids["port"] |= dict.fromkeys(shared_ports(connection, list(ids["router"])))
    ids["port"] |= dict.fromkeys((*tapped_with(connection, ports), *subports_of(connection, ports)))
    ids["router"] |= dict.fromkeys(metered_routers(connection, list(ids["metering_label"])))
    rules, policies = list(ids["firewall_rule"]), list(ids["firewall_policy"])
    ids["firewall_group"] |= dict.fromkeys(groups_of(connection, rules, policies))
    return {
        source: {**dict.fromkeys(ids[source]), **dict(read(connection, list(ids[source])))}  # None: deleted
        for source, read in readers.items()
        if ids[source]
    }
