"""Random changes through the API, of every kind that hosts receive."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from neutrino.model.agents import DHCP
from neutrino.server.main import Server
from tests.api.agents import report, switch
from tests.api.client import Api

HOSTS = ("h1", "h2", "h3")


class RandomChanges:
    """Changes through the API, of every kind that hosts receive."""

    def __init__(self, server: Server, seed: int, hosts: Sequence[str] = HOSTS) -> None:
        self.server = server
        self.hosts = hosts
        self.api = Api(server.app).as_admin()
        self.admin = self.api.as_admin()
        self.rng = random.Random(seed)
        self.networks = [self.api.network() for _ in range(2)]
        vlan = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
        self.networks.append(self.admin.network(**vlan))
        for i, network in enumerate(self.networks):
            self.api.subnet(network, f"10.{i}.0.0/24")
        self.groups = [self.api.make("security_group", name=f"g{i}")["id"] for i in range(3)]
        self.address_groups = [
            self.api.make("address_group", addresses=[f"10.9.{i}.0/24"], name=f"a{i}")["id"] for i in range(2)
        ]
        self.policies = [self.admin.make("policy", name=f"q{i}")["id"] for i in range(3)]
        self.ports: list[str] = []
        self.rules: list[str] = []

    def step(self) -> None:
        often = ["create", "create", "create", "delete", "rebind", "groups", "addresses", "rename", "rule", "rule"]
        dhcp, qos = ["dhcp", "dhcp_agent", "names"], ["policy", "policy_rule"]
        name = self.rng.choice(
            [*often, *dhcp, *qos, "unrule", "address_group", "subnet", "migrate", "agent", "network"]
        )
        getattr(self, f"_{name}")()

    def _port(self) -> str | None:
        return self.rng.choice(self.ports) if self.ports else None

    def _create(self) -> None:
        groups = self.rng.sample(self.groups, self.rng.randrange(3))
        host = self.rng.choice([*self.hosts, ""])
        network = self.rng.choice(self.networks)
        values: dict[str, Any] = {"security_groups": groups, "device_owner": "compute:nova"}
        if host:
            values["binding__host_id"] = host
        self.ports.append(self.admin.port(network, **values)["id"])

    def _delete(self) -> None:
        if port := self._port():
            self.ports.remove(port)
            self.api.delete(f"/ports/{port}").expect(204)

    def _rebind(self) -> None:
        if port := self._port():
            self.admin.put(f"/ports/{port}", {"port": {"binding:host_id": self.rng.choice([*self.hosts, ""])}}).expect(
                200
            )

    def _migrate(self) -> None:
        if port := self._port():
            nova, host = self.api.as_service(), self.rng.choice(self.hosts)
            if nova.post(f"/ports/{port}/bindings", {"binding": {"host": host}}).status == 201:
                if self.rng.random() < 0.6:
                    nova.put(f"/ports/{port}/bindings/{host}/activate")
                if self.rng.random() < 0.6:
                    nova.delete(f"/ports/{port}/bindings/{self.rng.choice(self.hosts)}")

    def _groups(self) -> None:
        if port := self._port():
            self.api.change("port", port, security_groups=self.rng.sample(self.groups, self.rng.randrange(3)))

    def _addresses(self) -> None:
        if port := self._port():
            pairs = [{"ip_address": f"10.7.0.{self.rng.randrange(4)}"} for _ in range(1)]
            self.api.put(f"/ports/{port}", {"port": {"allowed_address_pairs": pairs}})

    def _rename(self) -> None:
        if port := self._port():
            self.api.change("port", port, name=f"n{self.rng.random()}")

    def _rule(self) -> None:
        remote = self.rng.choice(["remote_group_id", "remote_address_group_id"])
        of = self.rng.choice(self.groups if remote == "remote_group_id" else self.address_groups)
        rule = {
            "security_group_id": self.rng.choice(self.groups),
            "direction": "ingress",
            "protocol": self.rng.choice(["tcp", "udp", "icmp"]),
            remote: of,
        }
        made = self.api.post("/security-group-rules", {"security_group_rule": rule})
        if made.status == 201:
            self.rules.append(made.body["security_group_rule"]["id"])

    def _unrule(self) -> None:
        if self.rules:
            rule = self.rules.pop(self.rng.randrange(len(self.rules)))
            self.api.delete(f"/security-group-rules/{rule}").expect(204)

    def _policy(self) -> None:
        """Another QoS policy of a port or network, or none."""
        new = self.rng.choice([*self.policies, None])
        port = self._port()
        if port is not None and self.rng.random() < 0.6:
            self.api.change("port", port, qos_policy_id=new)
        else:
            self.api.change("network", self.rng.choice(self.networks)["id"], qos_policy_id=new)

    def _policy_rule(self) -> None:
        policy = self.rng.choice(self.policies)
        rules = self.api.show("policy", policy)["rules"]
        if rules and self.rng.random() < 0.3:
            self.api.delete(f"/qos/policies/{policy}/{rules[0]['type']}_rules/{rules[0]['id']}")
            return
        direction, rate = self.rng.choice(["ingress", "egress"]), self.rng.randrange(1, 1000)
        same = [each for each in rules if each["type"] == "bandwidth_limit" and each["direction"] == direction]
        path, body = f"/qos/policies/{policy}/bandwidth_limit_rules", {"max_kbps": rate, "direction": direction}
        if same:
            self.api.put(f"{path}/{same[0]['id']}", {"bandwidth_limit_rule": body})
        else:
            self.api.post(path, {"bandwidth_limit_rule": body})

    def _address_group(self) -> None:
        key, addresses = self.rng.choice(self.address_groups), [f"10.9.8.{self.rng.randrange(9)}/32"]
        verb = self.rng.choice(["add_addresses", "remove_addresses"])
        self.api.put(f"/address-groups/{key}/{verb}", {"addresses": addresses})

    def _subnet(self) -> None:
        network = self.rng.choice(self.networks)
        subnets = self.api.all("/subnets", {"network_id": network["id"]})
        self.api.change("subnet", subnets[0]["id"], dns_nameservers=[f"192.0.2.{self.rng.randrange(9)}"])

    def _agent(self) -> None:
        host = self.rng.choice(self.hosts)
        switch(self.server, host, tunneling_ip=f"192.0.2.{self.rng.randrange(100)}")

    def _dhcp_agent(self) -> None:
        """One is registered, set down or up, or deleted."""
        found = self.admin.get("/agents", {"agent_type": DHCP}).body["agents"]
        if not found or self.rng.random() < 0.4:
            report(self.server, DHCP, self.rng.choice(self.hosts), dhcp_port_by_server=True)
            return
        agent = self.rng.choice(found)
        if self.rng.random() < 0.3:
            self.admin.delete(f"/agents/{agent['id']}")  # which another may have deleted
        else:
            self.admin.put(f"/agents/{agent['id']}", {"agent": {"admin_state_up": self.rng.random() < 0.6}})

    def _dhcp(self) -> None:
        """Served by another agent, or another subnet, or other options."""
        network = self.rng.choice(self.networks)["id"]
        agents = self.admin.get("/agents", {"agent_type": DHCP}).body["agents"]
        what = self.rng.choice(["add", "remove", "subnet", "options"])
        if what in ("add", "remove") and agents:
            path = f"/agents/{self.rng.choice(agents)['id']}/dhcp-networks"
            if what == "add":
                self.admin.post(path, {"network_id": network})
            else:
                self.admin.delete(f"{path}/{network}")
        elif what == "subnet":
            subnet = self.api.all("/subnets", {"network_id": network})[0]["id"]
            self.api.change("subnet", subnet, enable_dhcp=self.rng.random() < 0.7)
        elif what == "options" and (port := self._port()):
            option = {"opt_name": "server-ip-address", "opt_value": f"192.0.2.{self.rng.randrange(9)}"}
            self.api.change("port", port, extra_dhcp_opts=[option])

    def _names(self) -> None:
        if port := self._port():
            self.api.change("port", port, dns_name=f"n{self.rng.randrange(9)}")

    def _network(self) -> None:
        self.api.change("network", self.rng.choice(self.networks)["id"], admin_state_up=self.rng.random() < 0.5)
