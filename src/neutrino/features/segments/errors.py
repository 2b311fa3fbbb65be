"""API errors of segments and network segment ranges."""

from neutrino.server.errors import BadRequest, Conflict, InUse, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class SegmentInUse(InUse): template = "Segment {id} cannot be deleted: {reason}."
class NetworkSegmentRangeNotFound(NotFound): template = "There is no network segment range {id}."
class NetworkSegmentRangeNetTypeNotSupported(BadRequest):
    template = "network_type: networks of type {network_type} have no segment ranges."
class NetworkSegmentRangeReferencedByProject(InUse): template = "Networks use segments of network segment range {id}."
class NetworkSegmentRangeDefaultReadOnly(BadRequest):
    template = "Network segment range {id} is one of the configuration: it can be neither updated nor deleted."
class NetworkSegmentRangeOverlaps(Conflict): template = "The range overlaps with network segment ranges {ids}."
class NetworkVlanRangeError(BadRequest): template = "minimum and maximum: {first} to {last} is no range of VLAN ids."
class NetworkTunnelRangeError(BadRequest):
    template = "minimum and maximum: {first} to {last} is no range of {network_type} tunnel ids."
# fmt: on
