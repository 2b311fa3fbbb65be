"""Mechanism drivers as they are written for Neutron: nothing of this project is imported.

`Fabric` serves tunnel networks by a dynamic VLAN segment, and leaves the port on it to the next driver. `Leaf` binds
bare-metal ports to VLAN segments, and completes a provisioning component of its own. Both append what they see to a file,
and fail, hang or use unknown parts on request, by the port's name.
"""

import json
import os
import threading
from pathlib import Path
from types import MappingProxyType

from neutron.db import provisioning_blocks, segments_db
from neutron.objects import network as network_obj
from neutron.objects import ports as ports_obj
from neutron.objects import trunk as trunk_obj
from neutron_lib import constants
from neutron_lib import context as n_context
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt("path", help="The file that calls are written to."),
    cfg.StrOpt("physical_network", default="physnet1"),
]
cfg.CONF.register_opts(OPTIONS, group="fabric")
COMPONENT = "LEAF"


def log(**line):
    file = os.open(cfg.CONF.fabric.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def levels(shown):
    return [
        (level[api.BOUND_DRIVER], level[api.BOUND_SEGMENT]["network_type"], level[api.BOUND_SEGMENT]["segmentation_id"])
        for level in shown or []
    ]


@registry.has_registry_receivers
class Fabric(api.MechanismDriver):
    def initialize(self):
        log(method="initialize", drivers=list(cfg.CONF.ml2.mechanism_drivers), pid=os.getpid())

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    @registry.receives(resources.PORT, [events.PRECOMMIT_DELETE, events.AFTER_DELETE])
    def deleted(self, resource, event, trigger, payload=None):
        log(method=event, id=payload.resource_id, name=payload.latest_state["name"])

    @registry.receives(resources.TRUNK, [events.AFTER_CREATE, events.AFTER_DELETE])
    @registry.receives(resources.SUBPORTS, [events.AFTER_DELETE])
    def trunk_changed(self, resource, event, trigger, payload=None):
        trunk = payload.states[0]
        subports = payload.metadata.get("subports", trunk.sub_ports)
        tags = [one.segmentation_id for one in subports]
        log(method=f"{resource} {event}", id=payload.resource_id, port=trunk.port_id, tags=tags)

    @registry.receives(resources.ROUTER, [events.AFTER_CREATE])
    def router_created(self, resource, event, trigger, payload=None):
        raise AssertionError("never published")

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            if segment[api.NETWORK_TYPE] == constants.TYPE_VXLAN:
                vlan = context.allocate_dynamic_segment(
                    {
                        api.NETWORK_TYPE: constants.TYPE_VLAN,
                        api.PHYSICAL_NETWORK: cfg.CONF.fabric.physical_network,
                    }
                )
                context.continue_binding(segment[api.ID], [vlan])
                return

    def create_network_postcommit(self, context):
        segments = [s["network_type"] for s in context.network_segments]
        log(method="create_network_postcommit", segments=segments, keys=sorted(context.current))

    def create_subnet_postcommit(self, context):
        log(
            method="create_subnet_postcommit",
            cidr=context.current["cidr"],
            network=context.network.current["id"],
            keys=sorted(context.current),
        )

    def create_port_precommit(self, context):
        self._log("create_port_precommit", context)

    def create_port_postcommit(self, context):
        self._log("create_port_postcommit", context)

    def update_port_precommit(self, context):
        self._log("update_port_precommit", context)

    def update_port_postcommit(self, context):
        self._log("update_port_postcommit", context)

    def delete_port_postcommit(self, context):
        self._log("delete_port_postcommit", context)
        bottom = context.bottom_bound_segment
        if bottom is None or bottom["network_type"] != constants.TYPE_VLAN:
            return
        if ports_obj.PortBindingLevel.get_objects(context.plugin_context, segment_id=bottom["id"]):
            return
        dynamic = segments_db.get_network_segments(context.plugin_context, bottom["network_id"], filter_dynamic=True)
        if bottom["id"] in [segment["id"] for segment in dynamic]:
            context.release_dynamic_segment(bottom["id"])

    def _log(self, method, context):
        log(
            method=method,
            id=context.current["id"],
            host=context.host,
            vif=context.vif_type,
            original_vif=context.original_vif_type,
            levels=levels(context.binding_levels),
            original_levels=levels(context.original_binding_levels),
            top=(context.top_bound_segment or {}).get("network_type"),
            bottom=(context.bottom_bound_segment or {}).get("network_type"),
            status=context.status,
            tenant=context.current["tenant_id"],
            keys=sorted(context.current),
        )


class Leaf(api.MechanismDriver):
    vif_details = MappingProxyType({"leaf": "1"})

    held = threading.Event()

    def initialize(self):
        pass

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        port = context.current
        self._misbehave(port, "bind_port")
        if port[portbindings.VNIC_TYPE] != portbindings.VNIC_BAREMETAL:
            return
        for segment in context.segments_to_bind:
            if segment[api.NETWORK_TYPE] == constants.TYPE_VLAN:
                log(method="bind_port", above=levels(context.binding_levels))
                context.set_binding(segment[api.ID], portbindings.VIF_TYPE_OTHER, self.vif_details)
                provisioning_blocks.add_provisioning_component(
                    context._plugin_context, port["id"], resources.PORT, COMPONENT
                )
                return

    def create_port_precommit(self, context):
        if context.current["name"] == "dynamic":
            segment = {api.NETWORK_TYPE: constants.TYPE_VLAN, api.PHYSICAL_NETWORK: cfg.CONF.fabric.physical_network}
            log(method="precommit segment", made=context.allocate_dynamic_segment(segment)["segmentation_id"])

    def update_port_precommit(self, context):
        self._misbehave(context.current, "update_port_precommit")

    def update_port_postcommit(self, context):
        port = context.current
        self._misbehave(port, "update_port_postcommit")
        if port[portbindings.VIF_TYPE] != portbindings.VIF_TYPE_OTHER or port["status"] == constants.ACTIVE:
            return
        plugin = directory.get_plugin()
        trunk = trunk_obj.Trunk.get_object(context.plugin_context, port_id=port["id"])
        if trunk is not None:
            tags = [one.segmentation_id for one in trunk.sub_ports]
            known = network_obj.NetworkSegment.count(context.plugin_context, network_id=port["network_id"])
            log(method="trunk", id=trunk.id, tags=tags, details=port["trunk_details"]["trunk_id"], segments=known)
        read = plugin.get_port(n_context.get_admin_context(), port["id"])
        subnets = plugin.get_subnets(context.plugin_context, filters={"network_id": [port["network_id"]]})
        log(method="plug", id=read["id"], subnets=[s["cidr"] for s in subnets], network=context.network.current["name"])
        if port["name"] != "slow":
            provisioning_blocks.provisioning_complete(context._plugin_context, port["id"], resources.PORT, COMPONENT)

    def _misbehave(self, port, method):
        if port["name"] == f"raise-{method}":
            raise RuntimeError("the switch is on fire")
        if port["name"] == f"hang-{method}":
            Leaf.held.wait(60)
            try:
                provisioning_blocks.add_provisioning_component(None, port["id"], resources.PORT, "LATE")
            except Exception as error:
                log(method="late", id=port["id"], error=f"{type(error).__name__}: {error}")
        if port["name"] == f"session-{method}":
            n_context.get_admin_context().session.begin()
        if port["name"] == f"unknown-{method}":
            directory.get_plugin().sync_everything()


class Starting(api.MechanismDriver):
    """Fails to initialise while a file says so."""

    def initialize(self):
        how = Path(cfg.CONF.fabric.path + ".how")
        wanted = how.read_text() if how.exists() else ""
        log(method="initialize", name="starting", how=wanted)
        if wanted == "raise":
            raise RuntimeError("no answer from the controller")
        if wanted == "hang":
            threading.Event().wait(60)

    def create_network_precommit(self, context):
        log(method="create_network_precommit", name="starting")

    def create_network_postcommit(self, context):
        log(method="create_network_postcommit", name="starting")
