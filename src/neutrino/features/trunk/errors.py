"""API errors of trunks. Names, statuses and most sentences are those of Neutron, because clients match on them."""

from neutrino.server.errors import Conflict, InUse, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class TrunkNotFound(NotFound): template = "Trunk {id} could not be found."
class SubPortNotFound(NotFound): template = "SubPort {port_id} on trunk {trunk_id} could not be found."
class TrunkPortInUse(InUse): template = "Port {port_id} is in use by another trunk."
class ParentPortInUse(InUse):
    template = "Port {port_id} is currently in use and is not eligible for use as a parent port."
class PortInUseAsTrunkParent(InUse): template = "Port {port_id} is currently a parent port for trunk {trunk_id}."
class PortInUseAsSubPort(InUse): template = "Port {port_id} is currently a subport for trunk {trunk_id}."
class DuplicateSubPort(InUse): template = "{segmentation_type} {segmentation_id} is already in use on trunk {trunk_id}."
class SubPortMtuGreaterThanTrunkPortMtu(Conflict):
    template = "MTU {port_mtu} of subport {port_id} is greater than the MTU {trunk_mtu} of the trunk's port {trunk_id}."
class TrunkInUse(InUse): template = "Trunk {trunk_id} is currently in use: its parent port is bound."
class TrunkDisabled(Conflict): template = "Trunk {trunk_id} is currently disabled."
class TrunkInErrorState(Conflict):
    template = "Trunk {trunk_id} is in error state: remove the subports that could not be bound first."
# fmt: on
