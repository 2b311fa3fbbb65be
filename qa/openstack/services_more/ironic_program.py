"""A program for Ironic's virtual environment: its network interfaces `neutron` and `flat` on nodes of fake hardware.

    ironic_program.py CONFIG TENANT_PORT TENANT_PORT

Nodes, ports and port groups are in Ironic's database; each call is that of a conductor within a task. Prints a line for
each step; a step that fails ends it with a traceback.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tenacity
from ironic import objects
from ironic.common import context, driver_factory, exception, neutron, service
from ironic.conductor import task_manager

SWITCH = {"switch_id": "00:12:ff:00:00:01", "switch_info": "leaf1"}
UNKNOWN = {"switch_id": "00:12:ff:00:00:09", "switch_info": "leaf9"}
LINK = "local_link_information"


class Scenario:
    def __init__(self, tenant_ports: list[str]) -> None:
        self.context = context.get_admin_context()
        self.tenant_ports = tenant_ports
        self.api = neutron.get_client(context=self.context, auth_from_config=True)
        self.nodes = {kind: self._node(kind) for kind in ("neutron", "flat")}
        self.nodes["elsewhere"] = self._node("neutron")
        node = self.nodes["neutron"]
        self.group = objects.Portgroup(
            self.context, node_id=node.id, name="bond0", address="52:54:00:00:01:00", mode="802.3ad", extra={}
        )
        self.group.create()
        for number in (1, 2):
            self._port(node, number, portgroup_id=self.group.id, pxe_enabled=number == 1)
        self._port(node, 3, pxe_enabled=True)
        self._port(self.nodes["flat"], 4, pxe_enabled=True)
        self._port(self.nodes["elsewhere"], 5, UNKNOWN, pxe_enabled=True)

    def validate(self) -> str:
        for kind in self.nodes:
            with self._task(kind) as task:
                task.driver.network.validate(task)
        return "networks by name"

    def service_networks(self) -> str:
        """Cleaning, provisioning, inspection, rescue and servicing: a port for each of the node, then removed."""
        made = []
        for name in ("cleaning", "provisioning", "inspection", "rescuing", "servicing"):
            with self._task("neutron") as task:
                getattr(task.driver.network, f"add_{name}_network")(task)
                ports = self._ports(device_id=task.node.uuid)
                _expect(len(ports) == 2, f"{name}: {len(ports)} ports")  # of the ports that boot
                for port in ports:
                    self._expect_baremetal(port, task.node.uuid, links=1)
                getattr(task.driver.network, f"remove_{name}_network")(task)
                _expect(not self._ports(device_id=task.node.uuid), f"{name}: ports are left")
            made.append(name)
        return ", ".join(made)

    def tenant_networks(self) -> str:
        """Ports of a project: the port group's with both links, the single port's with one."""
        with self._task("neutron") as task:
            task.node.instance_uuid = str(uuid.uuid4())
            network = task.driver.network
            for port in self.tenant_ports:
                network.vif_attach(task, {"id": port})
            listed = {each["id"] for each in network.vif_list(task)}
            _expect(listed == {*self.tenant_ports}, f"VIFs {listed}")
            network.configure_tenant_networks(task)
            links = []
            for name in self.tenant_ports:
                port = self.api.get_port(name)
                links.append(len(port.binding_profile[LINK]))
                self._expect_baremetal(port, task.node.uuid, links=links[-1], owner="")
                if links[-1] == 2:
                    _expect("local_group_information" in port.binding_profile, "the port group of the binding")
                    _expect(port.mac_address == self.group.address, "the port group's address")
            _expect(sorted(links) == [1, 2], f"links {links}")
            network.unconfigure_tenant_networks(task)
            for name in self.tenant_ports:
                port = self.api.get_port(name)
                _expect(not port.binding_host_id and not port.binding_profile, f"{port.binding_profile}")
                _expect(port.binding_vif_type == "unbound", port.binding_vif_type)
                network.vif_detach(task, name)
            _expect(not network.vif_list(task), "a VIF is left")
        return "attached, bound with links of the switch, unbound, detached"

    def address_changes(self) -> str:
        """The MAC address of an attached port follows that of Ironic's port."""
        with self._task("neutron") as task:
            task.driver.network.vif_attach(task, {"id": self.tenant_ports[0]})
            attached = next(each for each in [*task.portgroups, *task.ports] if _vif(each) == self.tenant_ports[0])
            attached.address = "52:54:00:00:02:00"
            changed = "portgroup_changed" if isinstance(attached, objects.Portgroup) else "port_changed"
            getattr(task.driver.network, changed)(task, attached)
            attached.save()
            _expect(self.api.get_port(self.tenant_ports[0]).mac_address == "52:54:00:00:02:00", "the address follows")
            task.driver.network.vif_detach(task, self.tenant_ports[0])
        return "52:54:00:00:02:00"

    def flat(self) -> str:
        with self._task("flat") as task:
            network = task.driver.network
            network.add_cleaning_network(task)
            ports = self._ports(device_id=task.node.uuid)
            _expect(len(ports) == 1, f"{len(ports)} ports")
            self._expect_baremetal(ports[0], task.node.uuid, links=1)
            network.remove_cleaning_network(task)
            _expect(not self._ports(device_id=task.node.uuid), "ports are left")
            network.vif_attach(task, {"id": self.tenant_ports[1]})
            network.add_provisioning_network(task)
            port = self.api.get_port(self.tenant_ports[1])
            _expect(port.binding_host_id == task.node.uuid, f"host {port.binding_host_id!r}")
            network.remove_provisioning_network(task)
            network.configure_tenant_networks(task)
            network.unconfigure_tenant_networks(task)
            network.vif_detach(task, self.tenant_ports[1])
        return "cleaning network, VIF bound and released"

    def binding_failure(self) -> str:
        """A switch that no driver knows: the port is not bound, which is an error by Ironic's default."""
        # Else it waits 1000 s for the port to become ACTIVE, although its binding has failed.
        neutron.wait_for_port_status.retry.stop = tenacity.stop_after_attempt(1)
        with self._task("elsewhere") as task:
            try:
                task.driver.network.add_cleaning_network(task)
            except exception.NetworkError:
                task.driver.network.remove_cleaning_network(task)
                _expect(not self._ports(device_id=task.node.uuid), "ports are left")
                return "NetworkError"
        raise AssertionError("a port that no driver binds was accepted")

    def _expect_baremetal(self, port: Any, node: str, *, links: int, owner: str = "baremetal:none") -> None:
        _expect(port.binding_vnic_type == "baremetal", f"VNIC type {port.binding_vnic_type}")
        _expect(port.binding_host_id == node, f"host {port.binding_host_id}")
        _expect(port.binding_vif_type == "other", f"VIF type {port.binding_vif_type}")
        _expect(not owner or port.device_owner == owner, f"owner {port.device_owner}")
        found = port.binding_profile.get(LINK, [])
        _expect(len(found) == links, f"profile {port.binding_profile}")
        _expect(all(each["switch_id"] == SWITCH["switch_id"] for each in found), f"profile {port.binding_profile}")

    def _ports(self, **filters: str) -> list[Any]:
        return list(self.api.ports(**filters))

    def _node(self, kind: str) -> Any:
        node = objects.Node(
            self.context,
            uuid=str(uuid.uuid4()),
            driver="fake-hardware",
            network_interface=kind,
            properties={},
            driver_info={},
            driver_internal_info={},
            instance_info={},
            extra={},
        )
        driver_factory.check_and_update_node_interfaces(node)
        node.create()
        return node

    def _port(self, node: Any, number: int, switch: Mapping[str, str] = SWITCH, **values: Any) -> None:
        objects.Port(
            self.context,
            node_id=node.id,
            address=f"52:54:00:00:00:{number:02x}",
            local_link_connection={**switch, "port_id": f"Ethernet{number}"},
            extra={},
            internal_info={},
            is_smartnic=False,
            **values,
        ).create()

    @contextlib.contextmanager
    def _task(self, kind: str) -> Iterator[Any]:
        with task_manager.acquire(self.context, self.nodes[kind].uuid, shared=False, purpose="check") as task:
            yield task


def _vif(port: Any) -> str | None:
    found: str | None = (port.internal_info or {}).get("tenant_vif_port_id")
    return found


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def main(arguments: list[str]) -> None:
    objects.register_all()
    service.prepare_command(["ironic", "--config-file", arguments[0]])
    scenario = Scenario(arguments[1:])
    steps: list[Callable[[], str]] = [
        scenario.validate,
        scenario.service_networks,
        scenario.tenant_networks,
        scenario.address_changes,
        scenario.flat,
        scenario.binding_failure,
    ]
    for step in steps:
        print(f"STEP {step.__name__}: {step()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
