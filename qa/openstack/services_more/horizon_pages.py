"""The check of Horizon: every page about networks, and their forms: created, changed and deleted."""

from __future__ import annotations

from typing import Any

from qa.openstack.checks.expect import expect
from qa.openstack.cloud import Cloud
from qa.openstack.services.resources import DEMO
from qa.openstack.services_more import horizon
from qa.openstack.services_more.horizon import Browser

NAME = "horizon-check"
EXTERNAL = f"{NAME}-public"
PROJECT_PAGES = (
    "/project/networks/",
    "/project/routers/",
    "/project/security_groups/",
    "/project/floating_ips/",
    "/project/network_topology/",
    "/project/network_topology/json",
    "/project/network_topology/router",
    "/project/network_topology/network",
    "/project/network_qos/",
    "/project/networks/create",
    "/project/routers/create/",
    "/project/security_groups/create/",
    "/project/floating_ips/allocate/",
    "/project/api_access/",
)
ADMIN_PAGES = (
    "/admin/networks/",
    "/admin/networks/create/",
    "/admin/routers/",
    "/admin/routers/create/",
    "/admin/floating_ips/",
    "/admin/floating_ips/allocate/",
    "/admin/rbac_policies/",
    "/admin/rbac_policies/create/",
    "/admin/info/",
)
REST = (
    "/api/neutron/networks/",
    "/api/neutron/subnets/?network_id={network}",
    "/api/neutron/ports/?network_id={network}",
    "/api/neutron/extensions/",
    "/api/neutron/qos_policies/",
    "/api/network/securitygroups/",
    "/api/network/floatingips/",
    "/api/network/floatingippools/",
)


def check_horizon(cloud: Cloud) -> str:
    """Horizon's network pages: loaded by a member and an administrator, and their forms submitted."""
    horizon.start(cloud)
    admin = cloud.connect().network
    _remove(cloud)
    external = admin.create_network(
        name=EXTERNAL, is_router_external=True, provider_network_type="vlan", provider_physical_network="physnet1"
    )
    admin.create_subnet(network_id=external.id, ip_version=4, cidr="198.51.100.0/24", enable_dhcp=False)
    try:
        browser = Browser(DEMO[0])
        forms = _Forms(cloud, browser, external.id)
        for path in PROJECT_PAGES:
            browser.get(path)
        submitted = forms.run()
        operator = Browser("admin")
        for path in (*ADMIN_PAGES, f"/admin/networks/{external.id}/detail"):
            operator.get(path)
        submitted += _administrator(cloud, operator)
    finally:
        _remove(cloud)
    pages = len(PROJECT_PAGES) + len(ADMIN_PAGES) + len(REST) + forms.pages + 1
    return f"{pages} pages, {submitted} forms and buttons"


class _Forms:
    """A member's forms, in the order in which a user would need them."""

    def __init__(self, cloud: Cloud, browser: Browser, external: str) -> None:
        self.browser = browser
        self.external = external
        self.network = cloud.connect(*DEMO).network
        self.pages = 0
        self.submitted = 0

    def run(self) -> int:
        network, subnet = self.networks()
        port = self.ports(network)
        self.routers(subnet)
        self.security_groups()
        self.floating_ips(port)
        for path in REST:
            self.browser.json(path.format(network=network))
        self.press(f"/project/networks/{network}/detail?tab=network_tabs__ports_tab", "ports", port)
        expect(self.network.find_port(port) is None, "the port is still there")
        self.press("/project/networks/", "networks", network)
        expect(self.network.find_network(f"{NAME}-2") is None, "the network is still there")
        return self.submitted

    def networks(self) -> tuple[str, str]:
        self.submit(
            "/project/networks/create",
            net_name=NAME,
            subnet_name=NAME,
            address_source="manual",
            cidr="10.86.0.0/24",
            dns_nameservers="192.0.2.53",
            allocation_pools="10.86.0.10,10.86.0.99",
        )
        network = self.network.find_network(NAME, ignore_missing=False)
        subnet = self.network.find_subnet(NAME, ignore_missing=False)
        expect(subnet.allocation_pools == [{"start": "10.86.0.10", "end": "10.86.0.99"}], f"{subnet.allocation_pools}")
        self.submit(f"/project/networks/{network.id}/update", name=f"{NAME}-2")
        self.submit(
            f"/project/networks/{network.id}/subnets/{subnet.id}/update", subnet_name=f"{NAME}-2", dns_nameservers=""
        )
        changed = self.network.get_subnet(subnet.id)
        expect(
            (changed.name, changed.dns_nameservers) == (f"{NAME}-2", []), f"{changed.name} {changed.dns_nameservers}"
        )
        self.submit(
            f"/project/networks/{network.id}/subnets/create",
            subnet_name=f"{NAME}-v6",
            address_source="manual",
            cidr="fd00:86::/64",
            ip_version=6,
            ipv6_modes="slaac/slaac",
        )
        self.load(f"/project/networks/{network.id}/detail", f"/project/networks/subnets/{subnet.id}/detail")
        return network.id, subnet.id

    def ports(self, network: str) -> str:
        self.submit(f"/project/networks/{network}/ports/create", name=NAME)
        port = self.network.find_port(NAME, ignore_missing=False)
        self.submit(f"/project/networks/{network}/ports/{port.id}/update", name=f"{NAME}-2")
        expect(self.network.get_port(port.id).name == f"{NAME}-2", "the port has its new name")
        pairs = f"/project/networks/ports/{port.id}/addallowedaddresspairs"
        self.submit(pairs, ip="10.86.0.200/32")
        expect(self.network.get_port(port.id).allowed_address_pairs, "the port has its address pair")
        self.load(f"/project/networks/ports/{port.id}/detail")
        return str(port.id)

    def routers(self, subnet: str) -> None:
        self.submit("/project/routers/create/", name=NAME, external_network=self.external)
        router = self.network.find_router(NAME, ignore_missing=False)
        self.submit(f"/project/routers/{router.id}/addinterface", subnet_id=self._choice(router.id, subnet))
        self.submit(f"/project/routers/{router.id}/update", name=f"{NAME}-2")
        self.submit(f"/project/routers/{router.id}/addrouterroute", destination="10.99.0.0/16", nexthop="10.86.0.9")
        expect(self.network.get_router(router.id).routes, "the router has its route")
        self.load(f"/project/routers/{router.id}/")

    def _choice(self, router: str, subnet: str) -> str:
        """The value of the form's list that names the subnet."""
        choices = self.browser.form(f"/project/routers/{router}/addinterface").choices["subnet_id"]
        return next(value for value in choices if subnet in value)

    def security_groups(self) -> None:
        self.submit("/project/security_groups/create/", name=NAME)
        group = self.network.find_security_group(NAME, ignore_missing=False)
        self.submit(f"/project/security_groups/{group.id}/update/", name=f"{NAME}-2")
        self.submit(
            f"/project/security_groups/{group.id}/add_rule/",
            rule_menu="tcp",
            port_or_range="port",
            port=22,
            remote="cidr",
            cidr="0.0.0.0/0",
        )
        rules = list(self.network.security_group_rules(security_group_id=group.id, direction="ingress"))
        expect([rule.port_range_max for rule in rules] == [22], f"rules {rules}")
        self.load(f"/project/security_groups/{group.id}/")
        self.press(f"/project/security_groups/{group.id}/", "rules", rules[0].id)
        self.press("/project/security_groups/", "security_groups", group.id)
        expect(self.network.find_security_group(group.id) is None, "the group is still there")

    def floating_ips(self, port: str) -> None:
        self.submit("/project/floating_ips/allocate/", pool=self.external, description=NAME)
        floating = next(iter(self.network.ips(description=NAME)))
        path = f"/project/floating_ips/associate/?ip_id={floating.id}"
        targets = self.browser.form(path).choices["port_id"]
        target = next(value for value in targets if port in value)
        self.submit(path, ip_id=floating.id, port_id=target)
        expect(self.network.get_ip(floating.id).port_id == port, "the floating IP is associated")
        self.press("/project/floating_ips/", "floating_ips", floating.id, "release")
        expect(self.network.find_ip(floating.id) is None, "the floating IP is still there")
        router = self.network.find_router(f"{NAME}-2")
        interface = next(iter(self.network.ports(device_id=router.id, device_owner="network:router_interface")))
        self.press(
            f"/project/routers/{router.id}/?tab=router_details__extraroutes", "extra_routes", "10.86.0.9:10.99.0.0/16"
        )
        expect(not self.network.get_router(router.id).routes, "the route is still there")
        self.press(f"/project/routers/{router.id}/?tab=router_details__interfaces", "interfaces", interface.id)
        self.press("/project/routers/", "routers", router.id, "clear")
        self.press("/project/routers/", "routers", router.id)
        expect(self.network.find_router(router.id) is None, "the router is still there")

    def load(self, *paths: str) -> None:
        for path in paths:
            self.browser.get(path)
            self.pages += 1

    def submit(self, path: str, **values: object) -> None:
        self.browser.submit(path, **values)
        self.submitted += 1

    def press(self, page: str, table: str, key: str, action: str = "delete") -> None:
        self.browser.act(page, table, action, key)
        self.submitted += 1


def _administrator(cloud: Cloud, browser: Browser) -> int:
    """A provider network and an RBAC policy; returns the number of forms and buttons."""
    network = cloud.connect().network
    project = cloud.connect().identity.find_project("demo").id
    browser.submit(
        "/admin/networks/create/",
        name=f"{NAME}-admin",
        tenant_id=project,
        network_type="vlan",
        physical_network="physnet1",
        segmentation_id=177,
        with_subnet=False,
    )
    made = network.find_network(f"{NAME}-admin", ignore_missing=False)
    expect(made.provider_segmentation_id == 177 and made.project_id == project, f"{made}")
    browser.submit(f"/admin/networks/{made.id}/update", name=f"{NAME}-admin", shared=True)
    expect(network.get_network(made.id).is_shared, "the network is shared")
    browser.get(f"/admin/networks/{made.id}/detail")
    browser.act("/admin/networks/", "networks", "delete", made.id)
    expect(network.find_network(made.id) is None, "the network is still there")
    return 3


def _remove(cloud: Cloud) -> None:
    network = cloud.connect().network
    for floating in list(network.ips(description=NAME)):
        network.delete_ip(floating)
    for name in (NAME, f"{NAME}-2"):
        for router in list(network.routers(name=name)):
            network.update_router(router, routes=[])
            for port in list(network.ports(device_id=router.id, device_owner="network:router_interface")):
                network.remove_interface_from_router(router, port_id=port.id)
            network.delete_router(router)
        for group in list(network.security_groups(name=name)):
            network.delete_security_group(group)
    for name in (NAME, f"{NAME}-2", f"{NAME}-admin", EXTERNAL):
        for found in list(network.networks(name=name)):
            _remove_ports(network, found.id)
            network.delete_network(found)


def _remove_ports(network: Any, network_id: str) -> None:
    for port in list(network.ports(network_id=network_id)):
        if not port.device_owner.startswith("network:"):
            network.delete_port(port)
