"""The extension list is true: for every advertised alias, a feature of it is used on a live server."""

from __future__ import annotations

import pytest

from neutrino.model.objects import Object
from tests.conformance.facts import CORE, aliases_of_lib, of_neutron
from tests.conformance.neutron_facts import NEUTRON
from tests.conformance.probes import PROBES
from tests.conformance.probes.asking import Shown, refused
from tests.conformance.probes.samples import ALIASED, sample_objects
from tests.conformance.server import LiveServer

# Extensions that clients and other services check for.
_NEEDED = """
    project-id standard-attr-timestamp standard-attr-revisions standard-attr-description standard-attr-tag
    revision-if-match pagination sorting filter-validation empty-string-filtering binding binding-extended provider
    multi-provider external-net net-mtu net-mtu-writable security-group stateful-security-group port-security
    allowed-address-pairs extra_dhcp_opt dns-integration subnet_allocation default-subnetpools subnet-service-types
    address-scope address-group security-groups-remote-address-group security-groups-shared-filtering
    security-groups-normalized-cidr port-security-groups-filtering ip-substring-filtering rbac-policies
    rbac-security-groups rbac-address-scope rbac-subnetpool rbac-address-group quotas quota_details quota-check-limit
    agent availability_zone network_availability_zone dhcp_agent_scheduler network-ip-availability
    port-mac-address-regenerate ip_allocation l2_adjacency uplink-status-propagation data-plane-status
    tag-ports-during-bulk-creation router ext-gw-mode extraroute extraroute-atomic dvr l3-ha l3_agent_scheduler
    router_availability_zone fip-port-details floating-ip-port-forwarding floating-ip-port-forwarding-detail
    floating-ip-port-forwarding-port-ranges floating-ip-port-forwarding-description expose-port-forwarding-in-fip
    l3-conntrack-helper router-admin-state-down-before-update auto-allocated-topology flavors l3-flavors service-type
    network_ha floatingip-pools qos qos-bw-limit-direction qos-bw-minimum-ingress qos-default qos-fip
    qos-fip-network-policy qos-gateway-ip qos-port-network-policy qos-pps qos-pps-minimum qos-pps-minimum-rule-alias
    qos-rule-type-details qos-rule-type-filter qos-rules-alias port-resource-request port-resource-request-groups
    agent-resources-synced fwaas_v2 standard-attr-fwaas-v2 uplink-status-propagation-updatable port-device-profile
    port-hardware-offload-type port-hints port-hint-ovs-tx-steering port-mac-override port-numa-affinity-policy
    port-numa-affinity-policy-socket port-trusted-vif vlan-transparent qinq security-groups-default-rules
    security-groups-default-statefulness subnet_onboard floating-ip-router-writable l3-port-ip-change-not-allowed
    agent_sort_key quota-check-limit-default subnet-dns-publish-fixed-ip dns-integration-domain-keywords trunk
    trunk-details logging local_ip segment standard-attr-segment segments-peer-subnet-host-routes
    subnet-segmentid-writable subnet-segmentid-enforce network-segment-range metering
    metering_source_and_destination_fields l3-ndp-proxy l3-ext-ndp-proxy taas taas-vlan-filter tap-mirror
    tap-mirror-both-direction bgp bgp_4byte_asn bgp_dragent_scheduler network-cascade-delete
    vpnaas vpn-endpoint-groups vpn-aes-ccm-gcm vpn-aes-ctr vpn-no-sha1-3des vpn-flavors
"""
NEEDED = _NEEDED.split()


# Advertising one of these would make clients use a missing feature.
NOT_HERE = ("bgpvpn",)


NOT_SHOWN = {
    ("next_providers", "provider"),  # one service implements all routers
    ("next_providers", "driver"),
    ("next_providers", "metainfo"),
    ("firewall_rules", "position"),  # of a rule in several policies: Neutron does not show it either
    ("metering_label_rules", "project_id"),  # Neutron does not show it either (exchange 802)
    ("bindings", "project_id"),  # Neutron does not show it either (exchange 507)
    *((f"alias_{type_}_rules", "project_id") for type_ in ALIASED),  # nor this
}


@pytest.fixture(scope="module")
def advertised(server: LiveServer) -> list[Object]:
    extensions: list[Object] = server.ask("GET", "/v2.0/extensions")["extensions"]
    return extensions


@pytest.fixture(scope="module")
def shown(server: LiveServer) -> Shown:
    return sample_objects(server)


def visible_places(alias: str) -> list[tuple[str, str]]:
    """The visible attributes of an extension, on resources that are served here."""
    core = of_neutron(())
    facts = {place: fact for place, fact in of_neutron({alias}).items() if place not in core or core[place] != fact}
    return [place for place, fact in facts.items() if fact.visible and place not in NOT_SHOWN]


def test_what_others_look_for_is_there(advertised: list[Object]) -> None:
    aliases = [extension["alias"] for extension in advertised]
    assert sorted(set(NEEDED) - set(aliases)) == []
    assert sorted(set(NOT_HERE) & set(aliases)) == []
    assert len(aliases) == len(set(aliases))


def test_an_extension_is_shown_as_it_is_listed(server: LiveServer, advertised: list[Object]) -> None:
    for extension in advertised:
        assert server.ask("GET", f"/v2.0/extensions/{extension['alias']}")["extension"] == extension
        assert set(extension) >= {"alias", "name", "description", "updated", "links"}
    refused(server, "GET", "/v2.0/extensions/nothing", status=404)


def test_every_attribute_of_an_extension_is_shown(advertised: list[Object], shown: Shown) -> None:
    absent = {
        (extension["alias"], collection, name)
        for extension in advertised
        for collection, name in visible_places(extension["alias"])
        if name not in shown[collection]
    }
    assert absent == set()


def test_every_extension_is_asked_for_something(advertised: list[Object]) -> None:
    aliases = {extension["alias"] for extension in advertised}
    assert sorted(alias for alias in aliases if alias not in PROBES and not visible_places(alias)) == []
    assert sorted(set(PROBES) - aliases) == []


@pytest.mark.parametrize("alias", PROBES)
def test_it_works(alias: str, server: LiveServer, shown: Shown) -> None:
    PROBES[alias](server, shown)


def test_the_names_of_aliases_are_known() -> None:
    assert set(NEEDED) | set(NOT_HERE) <= {*aliases_of_lib(), *NEUTRON} - set(CORE)
