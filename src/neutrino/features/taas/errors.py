"""API errors of tap services, tap flows and tap mirrors."""

from neutrino.server.errors import Conflict, InvalidInput, NotAuthorized, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class TapServiceNotFound(NotFound): template = "There is no tap service {id}."
class TapFlowNotFound(NotFound): template = "There is no tap flow {id}."
class TapMirrorNotFound(NotFound): template = "There is no tap mirror {id}."
class PortDoesNotBelongToTenant(NotAuthorized): template = "Port {port_id} does not belong to project {project_id}."
class TapServiceNotBelongToTenant(NotAuthorized):
    template = "Tap service {tap_service_id} does not belong to project {project_id}."
class TapMirrorToHost(InvalidInput): template = "remote_ip: {remote_ip} is the tunnel address of a host."
class TapMirrorTunnelConflict(Conflict): template = "A tap mirror uses tunnel id {tunnel_id} already."
# fmt: on
