"""BGP speakers and peers: routes to subnets and floating IPs, announced by agents."""

from neutrino.features.bgp import takeover
from neutrino.features.bgp.agents_api import SpeakerAgents
from neutrino.features.bgp.announced import GATEWAY_HOSTS
from neutrino.features.bgp.feed import FEED
from neutrino.features.bgp.peers import BgpPeers
from neutrino.features.bgp.resources import BGP_PEER, BGP_SPEAKER
from neutrino.features.bgp.scheduler import BgpScheduler
from neutrino.features.bgp.speakers import BgpSpeakers
from neutrino.features.bgp.views import PEERS
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, Running
from neutrino.server.policy.rules import ADMIN, crud
from neutrino.server.scheduling.agents_api import agent_view
from neutrino.server.scheduling.scheduler import SchedulingOptions
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import RouterUse


def build_scheduler(services: Services) -> BgpScheduler:
    return BgpScheduler(services.db, services.registry, SchedulingOptions())


def build(services: Services) -> ResourcePlugin:
    db, scheduler = services.db, build_scheduler(services)
    return ResourcePlugin(
        collections=((BGP_SPEAKER, BgpSpeakers(db, scheduler.schedule)), (BGP_PEER, BgpPeers(db, PEERS))),
        schedulers=(scheduler,),
        routes=SpeakerAgents(db, agent_view(services.registry), scheduler).routes,
    )


FEATURES = (
    Feature(
        name="bgp",
        neutron_plugin="neutron_dynamic_routing.services.bgp.bgp_plugin.BgpPlugin",
        requires=("router",),
        extensions=(
            Extension("bgp", "Neutron BGP Dynamic Routing Extension", "Speakers that announce routes to BGP peers."),
            Extension("bgp_4byte_asn", "BGP 4-byte AS numbers", "AS numbers of four bytes."),
            Extension(
                "bgp_dragent_scheduler", "BGP Dynamic Routing Agent Scheduler", "Which agents serve which speakers."
            ),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            **crud("bgp_speaker", ADMIN, ADMIN),
            **crud("bgp_peer", ADMIN, ADMIN),
            **dict.fromkeys(
                ("add_bgp_peer", "remove_bgp_peer", "add_gateway_network", "remove_gateway_network"), ADMIN
            ),
            "get_advertised_routes": ADMIN,
            **dict.fromkeys(("add_bgp_speaker_to_dragent", "remove_bgp_speaker_from_dragent"), ADMIN),
            **dict.fromkeys(("list_bgp_speaker_on_dragent", "list_dragent_hosting_bgp_speaker"), ADMIN),
        },
        start=lambda services: Running(host_reported=build_scheduler(services).reported),
        routers=(RouterUse(gateway_hosts=GATEWAY_HOSTS),),
        feed=FEED,
    ),
)
