"""A program for Octavia's virtual environment: every operation of its network driver, against neutrino.

    octavia_program.py CONFIG PROJECT USER_PROJECT_NETWORK SUBNET SUBNET_V6 MEMBER_SUBNET HOST

Prints a line for each step; a step that fails ends it with a traceback. The instances of amphorae are ports that are bound
and released as Nova does; Octavia's own no-op compute driver has no ports.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openstack.exceptions
from octavia.common import config, constants, data_models
from octavia.network import base
from octavia.network.drivers.neutron.allowed_address_pairs import AllowedAddressPairsDriver
from oslo_config import cfg


class Compute:
    """Nova's part: a port of an instance is bound to a host, and released or deleted with the instance."""

    def __init__(self, network: Any, host: str) -> None:
        self._network = network
        self._host = host

    def attach_network_or_port(
        self, compute_id: str, network_id: str | None, ip_address: str | None, port_id: str
    ) -> SimpleNamespace:
        values = {"device_id": compute_id, "device_owner": "compute:nova", "binding_host_id": self._host}
        port = self._network.update_port(port_id, **values)
        return SimpleNamespace(net_id=port.network_id, port_id=port.id, fixed_ips=port.fixed_ips)

    def detach_port(self, compute_id: str, port_id: str) -> None:
        self._network.update_port(port_id, device_id="", device_owner="", binding_host_id="")


class Scenario:
    """A load balancer with two amphorae: active and standby, two virtual addresses, members on another subnet."""

    def __init__(self, driver: Any, arguments: list[str]) -> None:
        self.project, self.network, self.subnet, self.subnet_v6, self.member_subnet, self.host = arguments
        self.driver = driver
        self.api = driver.network_proxy
        driver.compute = Compute(self.api, self.host)
        self.balancer = data_models.LoadBalancer(
            id=str(uuid.uuid4()),
            project_id=self.project,
            topology=constants.TOPOLOGY_ACTIVE_STANDBY,
            vip=data_models.Vip(network_id=self.network, subnet_id=self.subnet),
            additional_vips=[data_models.AdditionalVip(subnet_id=self.subnet_v6)],
        )
        self.balancer.vip.load_balancer = self.balancer
        self.balancer.listeners = [self._listener(80, 1025), self._listener(53, 1026, "UDP", "10.0.0.0/8")]
        self.balancer.amphorae = [
            data_models.Amphora(id=str(uuid.uuid4()), compute_id=str(uuid.uuid4()), status=constants.AMPHORA_ALLOCATED)
            for _ in range(2)
        ]

    def allocate(self) -> str:
        vip, additional = self.driver.allocate_vip(self.balancer)
        vip.load_balancer = self.balancer
        self.balancer.vip, self.balancer.additional_vips = vip, additional
        port = self.api.get_port(vip.port_id)
        _expect(port.project_id == self.project, f"the port belongs to {port.project_id}")
        _expect(port.device_owner == "Octavia" and port.device_id == f"lb-{self.balancer.id}", "device of the port")
        _expect(not port.is_admin_state_up and len(port.fixed_ips) == 2, "an administratively down port, two addresses")
        _expect(len(additional) == 1 and ":" in additional[0].ip_address, f"additional addresses {additional}")
        again, _ = self.driver.allocate_vip(self.balancer)
        _expect(again.port_id == vip.port_id, "a second call finds the same port")
        return f"{vip.ip_address}, {additional[0].ip_address}"

    def address_in_use(self) -> str:
        other = data_models.LoadBalancer(
            id=str(uuid.uuid4()),
            project_id=self.project,
            vip=data_models.Vip(
                network_id=self.network, subnet_id=self.subnet, ip_address=self.balancer.vip.ip_address
            ),
        )
        try:
            self.driver.allocate_vip(other)
        except base.VIPInUseException as error:
            return f"refused: {error.orig_code}"
        raise AssertionError("an address in use was allocated twice")

    def security_group(self) -> str:
        group = self.driver.update_vip_sg(self.balancer, self.balancer.vip)
        rules = self._rules(group)
        # Each port for both families, UDP for its IPv4 CIDR alone; the ports of peers; VRRP and AH for IPv4.
        _expect(("IPv4", "tcp", 80, None) in rules and ("IPv6", "tcp", 80, None) in rules, f"rules {rules}")
        _expect(("IPv4", "udp", 53, "10.0.0.0/8") in rules, f"rules {rules}")
        _expect({("IPv4", "112", None, None), ("IPv4", "51", None, None)} <= rules, f"rules {rules}")
        _expect(self.driver.update_vip_sg(self.balancer, self.balancer.vip) == group, "a second call changes nothing")
        _expect(self._rules(group) == rules, "a second call changes no rule")
        return f"{len(rules)} rules"

    def change_listeners(self) -> str:
        self.balancer.listeners[0].protocol_port = 443
        self.balancer.listeners[1].provisioning_status = constants.PENDING_DELETE
        self.driver.update_vip(self.balancer)
        rules = self._rules(self.driver._get_lb_security_group(self.balancer.id).id)
        ports = {port for _, _, port, _ in rules if port}
        _expect(443 in ports and 80 not in ports and 53 not in ports, f"rules {rules}")
        return f"{len(rules)} rules"

    def plug(self) -> str:
        subnet = self.driver.get_subnet(self.subnet)
        plugged = []
        for amphora in self.balancer.amphorae:
            data = self.driver.plug_aap_port(self.balancer, self.balancer.vip, amphora, subnet)
            amphora.vrrp_ip, amphora.vrrp_port_id = data.vrrp_ip, data.vrrp_port_id
            amphora.ha_ip, amphora.ha_port_id = data.ha_ip, data.ha_port_id
            port = self.api.get_port(amphora.vrrp_port_id)
            pairs = {pair["ip_address"] for pair in port.allowed_address_pairs}
            addresses = {self.balancer.vip.ip_address, self.balancer.additional_vips[0].ip_address}
            _expect(pairs == addresses, f"pairs {pairs}")
            _expect(port.binding_host_id == self.host and port.binding_vif_type == "ovs", f"{port.binding_vif_type}")
            self.driver.update_aap_port_sg(self.balancer, amphora, self.balancer.vip)
            plugged.append(data.vrrp_ip)
        found = self.driver.get_network_configs(self.balancer)
        _expect(len(found) == 2, "the network configuration of each amphora")
        return ", ".join(plugged)

    def members(self) -> str:
        amphora = self.balancer.amphorae[0]
        network = self.driver.get_subnet(self.member_subnet).network_id
        port = self.driver.create_port(
            network, name="members", fixed_ips=[{"subnet_id": self.member_subnet}], secondary_ips=["10.123.0.1"]
        )
        self.driver.plug_port(amphora, port)
        interfaces = self.driver.get_plugged_networks(amphora.compute_id)
        _expect(len(interfaces) == 2, f"{len(interfaces)} interfaces")
        self.driver.plug_fixed_ip(port.id, self.member_subnet)
        _expect(len(self.driver.get_port(port.id).fixed_ips) == 2, "a further address")
        self.driver.unplug_fixed_ip(port.id, self.member_subnet)
        _expect(not self.driver.get_port(port.id).fixed_ips, "no address of the subnet is left")
        self.driver.unplug_network(amphora.compute_id, network)
        _expect(len(self.driver.get_plugged_networks(amphora.compute_id)) == 1, "the interface is unplugged")
        self.driver.delete_port(port.id)
        return "plugged, addresses changed, unplugged"

    def qos(self) -> str:
        policy = self.api.create_qos_policy(name="octavia", is_shared=True)
        self.driver.apply_qos_on_port(policy.id, self.balancer.vip.port_id)
        _expect(self.driver.get_qos_policy(policy.id).id == policy.id, "the policy is found")
        _expect(self.api.get_port(self.balancer.vip.port_id).qos_policy_id == policy.id, "the policy is applied")
        self.driver.apply_qos_on_port(None, self.balancer.vip.port_id)
        self.api.delete_qos_policy(policy.id)
        return "applied and removed"

    def failover(self) -> str:
        amphora = self.balancer.amphorae[1]
        self.driver.failover_preparation(amphora)
        _expect(not self.api.get_port(amphora.vrrp_port_id).dns_name, "the name of the instance is released")
        self.driver.set_port_admin_state_up(amphora.vrrp_port_id, False)
        self.driver.delete_port(amphora.vrrp_port_id)
        replacement = data_models.Amphora(
            id=str(uuid.uuid4()), compute_id=str(uuid.uuid4()), status=constants.AMPHORA_ALLOCATED
        )
        self.balancer.amphorae[1] = replacement
        data = self.driver.plug_aap_port(
            self.balancer, self.balancer.vip, replacement, self.driver.get_subnet(self.subnet)
        )
        replacement.vrrp_port_id, replacement.vrrp_ip = data.vrrp_port_id, data.vrrp_ip
        return f"{amphora.vrrp_ip} replaced by {data.vrrp_ip}"

    def lookups(self) -> str:
        network = self.api.get_network(self.network)
        _expect(self.driver.get_network_by_name(network.name).id == network.id, "a network by its name")
        port = self.balancer.amphorae[0]
        found = self.driver.get_port_by_net_id_device_id(self.network, port.compute_id)
        _expect(found.id == port.vrrp_port_id, "a port by network and device")
        usage = self.driver.get_network_ip_availability(self.driver.get_network(self.network))
        _expect(usage.used_ips > 0, "addresses in use")
        missing = str(uuid.uuid4())
        for call, error in (
            (self.driver.get_network, base.NetworkNotFound),
            (self.driver.get_subnet, base.SubnetNotFound),
            (self.driver.get_port, base.PortNotFound),
        ):
            try:
                call(missing)
            except error:
                continue
            raise AssertionError(f"{call.__name__} found {missing}")
        return f"{usage.used_ips} addresses in use"

    def deallocate(self) -> str:
        self.driver.unplug_vip(self.balancer, self.balancer.vip)
        group = self.driver._get_lb_security_group(self.balancer.id).id
        self.driver.deallocate_vip(self.balancer.vip)
        for find, name in ((self.api.get_port, self.balancer.vip.port_id), (self.api.get_security_group, group)):
            try:
                find(name)
            except openstack.exceptions.NotFoundException:
                continue
            raise AssertionError(f"{name} is still there")
        left = [port.id for port in self.api.ports() if port.name.startswith("octavia-lb")]
        _expect(not left, f"ports left: {left}")
        return "nothing left"

    def _rules(self, group: str) -> set[tuple[Any, ...]]:
        rules = self.api.security_group_rules(security_group_id=group, direction="ingress")
        return {(rule.ether_type, rule.protocol, rule.port_range_max, rule.remote_ip_prefix) for rule in rules}

    def _listener(self, port: int, peer: int, protocol: str = "TCP", cidr: str = "") -> Any:
        cidrs = [data_models.ListenerCidr(cidr=cidr)] if cidr else []
        return data_models.Listener(protocol=protocol, protocol_port=port, peer_port=peer, allowed_cidrs=cidrs)


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def main(arguments: list[str]) -> None:
    config.init(["--config-file", arguments[0]])
    cfg.CONF.set_override("compute_driver", "compute_noop_driver", "controller_worker")
    scenario = Scenario(AllowedAddressPairsDriver(), arguments[1:])
    steps: list[Callable[[], str]] = [
        scenario.allocate,
        scenario.address_in_use,
        scenario.security_group,
        scenario.plug,
        scenario.change_listeners,
        scenario.members,
        scenario.qos,
        scenario.lookups,
        scenario.failover,
        scenario.deallocate,
    ]
    for step in steps:
        print(f"STEP {step.__name__}: {step()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
