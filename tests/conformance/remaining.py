"""What remains different from Neutron, and why: what no other data has. docs/conformance.md has all in one table."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    what: str
    neutron: str
    here: str
    reason: str


_OTHERS = "it would reach, or show, what is another project's"

# Requests that Neutron accepts and this server refuses or answers otherwise.
STRICTER: tuple[Difference, ...] = (
    Difference(
        "list, show, change or delete gateway, SNAT, HA and floating-IP ports with a token that has no project",
        "depends on the release",
        "not visible (404)",
        "these ports have no project: they are nobody's who asks without one",
    ),
    Difference(
        "create without a project",
        "an object without an owner",
        "400, unless an administrator or a service names the project",
        "nobody could see or delete it, and no quota counts it",
    ),
    Difference(
        "delete a port of a router or of a floating IP whose `device_owner` has been cleared",
        "204",
        "409 ServicePortInUse",
        "the router would lose its interface behind its back",
    ),
    Difference(
        "clear or change `device_id` of such a port, by a non-administrator",
        "200, and the port can be attached to an instance",
        "409 ServicePortInUse",
        "an instance would get the router's address",
    ),
    Difference(
        "make a port a router's interface that is bound to a host, or whose `device_owner` is a device's",
        "200 if `device_id` is empty",
        "409 PortInUse",
        "it is in use on that host",
    ),
    Difference(
        "filter a list by an attribute that the caller may not see, such as `binding:host_id`",
        "applied, which reveals its value",
        "matches nothing",
        _OTHERS,
    ),
    Difference("sort a list by such an attribute", "applied", "the key is ignored", _OTHERS),
    Difference(
        "create a QoS policy with `shared` true, or change `shared`, by a project manager",
        "201, 200: other projects depend on the policy of a project",
        "403, unless `policy.yaml` permits `create_policy:shared` and `update_policy:shared`",
        "sharing with all projects is the administrator's, as for networks",
    ),
    Difference(
        "an IPv4-mapped IPv6 address or prefix (`::ffff:a.b.c.d`), anywhere",
        "accepted as IPv6",
        "400",
        "it passes checks of IPv4 addresses, and systems disagree on what it means",
    ),
    Difference(
        "a name as `peer_address` of an IPsec site connection",
        "resolved by the server, with /etc/hosts",
        "400, unless `resolve_vpn_peer_names` is set",
        "projects would read the server's resolver",
    ),
    Difference(
        "PTR record of a port on a network of a project, with `dns_publish_fixed_ip`",
        "published as the service",
        "none; on external and provider networks as in Neutron",
        "a project chooses the addresses of its networks, and could have names for addresses of others",
    ),
    Difference(
        "`dns_name` that a port of another project on the network has",
        "both answer to it",
        "accepted; `dns_assignment` has the name of the address",
        "a project could take the name of another's instance",
    ),
    Difference(
        "`extra_dhcp_opts` with an `opt_name` that is no option of dnsmasq, neither by name nor by number",
        "201, and dnsmasq ignores it",
        "400 InvalidInput",
        "the instance would never get it, and nobody would be told",
    ),
    Difference(
        "values of `extra_dhcp_opts` other than printable ASCII",
        "written to dnsmasq's file",
        "400",
        "they could begin another line of the file",
    ),
    Difference(
        "associate a local IP with a port on another network",
        "201, and hosts apply it to the port's network",
        "400 BadRequest",
        "packets would leave for a network where nobody answers",
    ),
    Difference(
        "create a local IP on an external network, or with a chosen address on a shared one, by a member",
        "201",
        "403, by the rules of `create_port`",
        "a port there is not allowed either",
    ),
    Difference(
        "create a local IP with the gateway's address; beyond the quota of ports",
        "201",
        "400 BadRequest; 409 OverQuota",
        "it makes a port, to which these checks apply",
    ),
    Difference(
        "remove the address of a local IP from its port; change `device_owner` of a port that was created with one",
        "200",
        "409 ServicePortInUse",
        "the local IP would have no address",
    ),
    Difference(
        "change the QoS policy of an instance's port with an allocation in Placement, after `device_id` was set to another "
        "project's instance",
        "that instance's allocation is changed",
        "409",
        _OTHERS,
    ),
    Difference(
        "change the QoS policy of a network with instances' ports that have allocations by it",
        "changed first, then their allocations one by one; one that does not fit ends it half-way",
        "all allocations together, or 409 and nothing; an allocation of another project than its port is refused; at most "
        "500 instances",
        "half of the instances would have guarantees that are not theirs",
    ),
    Difference(
        "set `device_owner` of a port to `neutron:…` on a network with a QoS policy",
        "the port is exempt from the policy",
        "the policy applies",
        "any project could exempt its ports",
    ),
    Difference(
        "create, change or read logs, create or delete metering labels and their rules, by a project manager",
        "allowed, also rules of another project's label",
        "administrators only, unless `policy.yaml` permits it; others' groups, ports and labels stay out of reach",
        _OTHERS,
    ),
    Difference(
        "a log of a firewall group for the port of an instance (`target_id`)",
        "accepted; hosts log ports of routers alone",
        "409 (LoggingTypeNotSupported)",
        "a log that has no effect is not accepted",
    ),
    Difference(
        "`segmentation_type` `inherit` of a subport, without the right to see `provider:segmentation_id` of its network",
        "the trunk shows the VLAN",
        "403",
        _OTHERS,
    ),
    Difference(
        "`host` of a local IP's port associations, without the right to see `binding:host_id` of the port",
        "shown",
        "not shown",
        _OTHERS,
    ),
    Difference(
        "read the quotas of another project, by a project manager",
        "allowed: the rule is asked for the caller's own project",
        "403",
        _OTHERS,
    ),
)

# Requests that Neutron refuses, or carries out in part.
MORE_TOLERANT: tuple[Difference, ...] = (
    Difference(
        "a protocol of a firewall rule in upper case, such as `TCP`",
        "refused",
        "accepted, and shown in lower case",
        "security group rules accept it too",
    ),
    Difference(
        "several firewall, VPN, BGP or tap objects in one request",
        "one transaction for each: a failure may leave some",
        "all or none",
        "a client cannot tell which were created",
    ),
    Difference(
        "`PUT /v2.0/bgp-speakers/{id}/remove_bgp_peer`",
        "the answer is `null`",
        "the answer has `bgp_peer_id`, as that of `add_bgp_peer`",
        "one form for both",
    ),
    Difference(
        "create a log of a firewall group whose status is not ACTIVE, or of a port in such a group",
        "400 (FWGIsNotReadyForLogging, PortIsNotReadyForLogging)",
        "201; hosts log once they filter by the group",
        "the outcome is the same, and clients need not wait until hosts have reported the group",
    ),
    Difference("a character beyond U+FFFE in a name", "refused", "accepted", "all databases here store it"),
    Difference(
        "show a metering label that is `shared`, by a reader of another project than its own",
        "hidden",
        "shown",
        "that is what `shared` says",
    ),
)

# Extensions that are listed, and what is behind them.
PARTLY: tuple[Difference, ...] = (
    Difference(
        "`flavors`, `l3-flavors`, `service-type`",
        "the driver of a router flavor's first profile makes the router; `l3_ha` and `router_distributed` choose its kind",
        "that driver chooses the kind (`single_node`, `ha`, `dvr`, `dvrha`), also against these attributes",
        "one service makes all routers, and a flavor is the operator's word",
    ),
    Difference("`vpn-flavors`", "choose a driver", "stored and shown", "there is one driver, strongSwan"),
    Difference(
        "`port-resource-request`, `port-resource-request-groups`",
        "always shown",
        "shown with `[placement]` configured ([design/placement.md](design/placement.md))",
        "Nova would wait for resources that no provider has",
    ),
)

# Drivers written for Neutron, which run unchanged (docs/design/neutron-drivers.md).
DRIVERS: tuple[Difference, ...] = (
    Difference(
        "type drivers", "loaded", "refused at the start", "they keep their allocations in tables of Neutron's database"
    ),
    Difference(
        "extension drivers with tables of their own",
        "loaded",
        "an error that names the driver with the first use of a session",
        "our transactions are not SQLAlchemy's ORM sessions; attributes of a driver are stored by the server",
    ),
    Difference(
        "`extend_network_dict`, `extend_subnet_dict`, `extend_port_dict`",
        "called for each object that is read",
        "called when an object is created or changed, and the result is stored",
        "a list takes no call for each object, and no time of a driver",
    ),
    Difference(
        "tables of a mechanism driver's own, `context.session`, `CONTEXT_WRITER`",
        "part of the transaction",
        "an error that names the driver",
        "our transactions are not SQLAlchemy's ORM sessions",
    ),
    Difference(
        "events other than of networks, subnets, ports, subports, trunks and the process",
        "hundreds are published",
        "never published, with a warning for each subscription",
        "these are those that switch drivers act on",
    ),
    Difference(
        "a failed postcommit of a binding on a create",
        "the port stays, bound to equipment that does not know it",
        "the port is deleted again",
        "a client that gets an error has no port",
    ),
    Difference(
        "a call that hangs",
        "waits for ever",
        "given up after `[ml2] driver_timeout`, a precommit or a call of an extension driver after at most 30 s",
        "a switch that is silent must not hold requests, and locks of the database, for ever",
    ),
    Difference("modules of `neutron`", "all", "a documented set", "the others need its database"),
    Difference(
        "ironic-neutron-agent",
        "reports nodes by RPC",
        "the server reads Ironic's ports itself (`[ironic] report_nodes`)",
        "there is no RPC over RabbitMQ",
    ),
    Difference(
        "`[ironic] enable_notifications`",
        "sends each batch of events once",
        "the same events, retried for 300 s while Ironic is away",
        "a node that waits for its port would wait until it gives up",
    ),
    Difference(
        "service plugins of Neutron's entry points, `baremetal-l2vni`",
        "loaded",
        "not loaded",
        "they are built on Neutron's tables; the latter is for OVN",
    ),
)
