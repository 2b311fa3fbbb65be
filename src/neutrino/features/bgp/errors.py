"""API errors of BGP speakers and peers, and of their agents."""

from neutrino.server.errors import AgentNotFound, BadRequest, Conflict, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class BgpSpeakerNotFound(NotFound): template = "BGP speaker {id} could not be found."
class BgpPeerNotFound(NotFound): template = "BGP peer {id} could not be found."
class BgpPeerNotAuthenticated(NotFound): template = "BGP peer {bgp_peer_id} not authenticated."
class BgpSpeakerPeerNotAssociated(NotFound):
    template = "BGP peer {bgp_peer_id} is not associated with BGP speaker {bgp_speaker_id}."
class BgpSpeakerNetworkNotAssociated(NotFound):
    template = "Network {network_id} is not associated with BGP speaker {bgp_speaker_id}."
class BgpSpeakerNetworkBindingError(Conflict):
    template = "Network {network_id} is already bound to BgpSpeaker {bgp_speaker_id}."
class DuplicateBgpPeerIpException(Conflict):
    template = (
        "BGP speaker {bgp_speaker_id} has a peer at {peer_ip} already, so BGP peer {bgp_peer_id} cannot be added."
    )
class InvalidBgpPeerMd5Authentication(BadRequest): template = "A password must be supplied when using auth_type md5."
class DrAgentInvalid(AgentNotFound): template = "BgpDrAgent {id} is invalid or has been disabled."
class DrAgentNotHostingBgpSpeaker(NotFound):
    template = "BGP speaker {bgp_speaker_id} is not hosted by the BgpDrAgent {agent_id}."
class DrAgentAssociationError(Conflict): template = "BgpDrAgent {agent_id} is already associated to a BGP speaker."
# fmt: on
