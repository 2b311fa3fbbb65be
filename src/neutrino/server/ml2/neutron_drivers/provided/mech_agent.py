"""`neutron.plugins.ml2.drivers.mech_agent`: base classes of drivers that bind ports by the agents of their host."""

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import resources
from neutron_lib.plugins.ml2 import api

from neutrino.server.ml2.neutron_drivers.provided import provisioning_blocks


class AgentMechanismDriverBase(api.MechanismDriver, metaclass=abc.ABCMeta):  # type: ignore[misc]
    def __init__(self, agent_type: str, supported_vnic_types: Sequence[str]) -> None:
        super().__init__()
        self.agent_type, self.supported_vnic_types = agent_type, supported_vnic_types

    def initialize(self) -> None:
        pass

    def create_port_precommit(self, context: Any) -> None:
        self._insert_provisioning_block(context)

    def update_port_precommit(self, context: Any) -> None:
        if context.host != context.original_host:
            self._insert_provisioning_block(context)

    def _insert_provisioning_block(self, context: Any) -> None:
        """The port is ACTIVE only after its agent has reported it wired."""
        port = context.current
        if not context.host or port["status"] == constants.PORT_STATUS_ACTIVE:
            return
        if port["device_owner"] == constants.DEVICE_OWNER_DVR_INTERFACE:
            return
        if port.get(portbindings.VNIC_TYPE, portbindings.VNIC_NORMAL) not in self.supported_vnic_types:
            return
        if context.host_agents(self.agent_type):
            provisioning_blocks.add_provisioning_component(
                context.plugin_context, port["id"], resources.PORT, provisioning_blocks.L2_AGENT_ENTITY
            )

    def bind_port(self, context: Any) -> None:
        vnic_type = context.current.get(portbindings.VNIC_TYPE, portbindings.VNIC_NORMAL)
        if vnic_type not in self.supported_vnic_types:
            return
        segments = context.segments_to_bind  # of the port's addresses already, on a routed network
        for agent in context.host_agents(self.agent_type):
            if agent["alive"] and any(self.try_to_bind_segment_for_agent(context, one, agent) for one in segments):
                return

    @abc.abstractmethod
    def try_to_bind_segment_for_agent(self, context: Any, segment: Mapping[str, Any], agent: Any) -> bool:
        """Call `context.set_binding` and return True if the agent can wire the segment."""

    def prohibit_list_supported_vnic_types(
        self, vnic_types: Sequence[str], prohibit_list: Collection[str] | None
    ) -> Sequence[str]:
        prohibited = set(prohibit_list or ())
        if prohibited - set(vnic_types):
            raise ValueError(
                f"vnic_type_prohibit_list of the {self.agent_type} driver has other types than {', '.join(vnic_types)}"
            )
        left = [one for one in vnic_types if one not in prohibited]
        if not left:
            raise ValueError(f"vnic_type_prohibit_list of the {self.agent_type} driver has all types")
        return left


class SimpleAgentMechanismDriverBase(AgentMechanismDriverBase, metaclass=abc.ABCMeta):
    def __init__(
        self,
        agent_type: str,
        vif_type: str,
        vif_details: Mapping[str, Any],
        supported_vnic_types: Sequence[str] | None = None,
        vnic_type_prohibit_list: Collection[str] | None = None,
    ) -> None:
        super().__init__(agent_type, supported_vnic_types or [portbindings.VNIC_NORMAL])
        self.supported_vnic_types = self.prohibit_list_supported_vnic_types(
            self.supported_vnic_types, vnic_type_prohibit_list
        )
        self.vif_type = vif_type
        self.vif_details = {portbindings.VIF_DETAILS_CONNECTIVITY: self.connectivity, **vif_details}

    def try_to_bind_segment_for_agent(self, context: Any, segment: Mapping[str, Any], agent: Any) -> bool:
        if not self.check_segment_for_agent(segment, agent):
            return False
        vif_type = self.get_vif_type(context, agent, segment)
        context.set_binding(segment[api.ID], vif_type, self.get_vif_details(context, agent, segment))
        return True

    def get_vif_details(self, context: Any, agent: Any, segment: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.vif_details

    def get_supported_vif_type(self, agent: Any) -> str:
        return self.vif_type

    def get_vif_type(self, context: Any, agent: Any, segment: Mapping[str, Any]) -> str:
        return self.vif_type

    @abc.abstractmethod
    def get_allowed_network_types(self, agent: Any = None) -> Collection[str]: ...

    @abc.abstractmethod
    def get_mappings(self, agent: Any) -> Collection[str]: ...

    def physnet_in_mappings(self, physnet: str, mappings: Collection[str]) -> bool:
        return physnet in mappings

    def check_segment_for_agent(self, segment: Mapping[str, Any], agent: Any) -> bool:
        if agent["agent_type"] != self.agent_type:
            return False
        network_type = segment[api.NETWORK_TYPE]
        if network_type not in self.get_allowed_network_types(agent):
            return False
        if network_type in (constants.TYPE_FLAT, constants.TYPE_VLAN):
            return self.physnet_in_mappings(segment[api.PHYSICAL_NETWORK], self.get_mappings(agent))
        return True
