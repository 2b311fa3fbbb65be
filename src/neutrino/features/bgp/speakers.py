"""BGP speakers: the API.

Changes of a speaker's peers and networks are logged with the speaker. What it advertises also depends on routers and
floating IPs; the feed derives the speakers from their changes.
"""

from collections.abc import Callable

import sqlalchemy as sa

from neutrino.features.bgp.errors import (
    BgpSpeakerNetworkBindingError,
    BgpSpeakerNetworkNotAssociated,
    BgpSpeakerNotFound,
    BgpSpeakerPeerNotAssociated,
    DuplicateBgpPeerIpException,
)
from neutrino.features.bgp.reading import read_routes
from neutrino.features.bgp.tables import bgp_speaker_networks, bgp_speaker_peers, bgp_speakers
from neutrino.features.bgp.views import PEERS, SPEAKERS
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api import types
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction


class BgpSpeakers(Collection):
    def __init__(self, db: Database, schedule: Callable[[str], object]) -> None:
        """`schedule` is called with the id of a new speaker, after the commit."""
        super().__init__(db, SPEAKERS)
        self._schedule = schedule

    def new(self, context: Context, values: Object) -> Object:
        return {**super().new(context, values), "peers": [], "networks": []}

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            tx.after_commit(self._schedule, after["id"])

    # --- peers ----------------------------------------------------------------------------------------------------

    @retried
    def add_bgp_peer(self, context: Context, key: str, body: object) -> Object:
        peer_id = _id_in(body, "bgp_peer_id")
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
            peer = PEERS.get(connection, peer_id)
            if exists(
                connection, bgp_speaker_peers.c.bgp_speaker_id == key, bgp_speaker_peers.c.peer_ip == peer["peer_ip"]
            ):
                raise DuplicateBgpPeerIpException(bgp_speaker_id=key, peer_ip=peer["peer_ip"], bgp_peer_id=peer_id)
        with self.db.transaction() as tx:
            update_row(tx, bgp_speakers, before, {})
            row = {"bgp_speaker_id": key, "bgp_peer_id": peer_id, "peer_ip": peer["peer_ip"]}
            tx.insert(bgp_speaker_peers, [row])
        return {"bgp_peer_id": peer_id}

    @retried
    def remove_bgp_peer(self, context: Context, key: str, body: object) -> Object:
        peer_id = _id_in(body, "bgp_peer_id")
        linked = sa.and_(bgp_speaker_peers.c.bgp_speaker_id == key, bgp_speaker_peers.c.bgp_peer_id == peer_id)
        missing = BgpSpeakerPeerNotAssociated(bgp_peer_id=peer_id, bgp_speaker_id=key)
        self._remove(context, key, bgp_speaker_peers, linked, missing)
        return {"bgp_peer_id": peer_id}

    # --- networks -------------------------------------------------------------------------------------------------

    @retried
    def add_gateway_network(self, context: Context, key: str, body: object) -> Object:
        network_id = _id_in(body, "network_id")
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
            if not exists(connection, t.networks.c.id == network_id):
                raise errors.NetworkNotFound(id=network_id)
            if exists(
                connection,
                bgp_speaker_networks.c.bgp_speaker_id == key,
                bgp_speaker_networks.c.network_id == network_id,
            ):
                raise BgpSpeakerNetworkBindingError(network_id=network_id, bgp_speaker_id=key)
        with self.db.transaction() as tx:
            update_row(tx, bgp_speakers, before, {})
            tx.insert(bgp_speaker_networks, [{"bgp_speaker_id": key, "network_id": network_id}])
        return {"network_id": network_id}

    @retried
    def remove_gateway_network(self, context: Context, key: str, body: object) -> Object:
        network_id = _id_in(body, "network_id")
        linked = sa.and_(bgp_speaker_networks.c.bgp_speaker_id == key, bgp_speaker_networks.c.network_id == network_id)
        missing = BgpSpeakerNetworkNotAssociated(network_id=network_id, bgp_speaker_id=key)
        self._remove(context, key, bgp_speaker_networks, linked, missing)
        return {"network_id": network_id}

    def _remove(
        self, context: Context, key: str, table: sa.Table, linked: sa.ColumnElement[bool], missing: errors.ApiError
    ) -> None:
        """Remove a peer or network from a speaker; `missing` is raised if the speaker does not have it."""
        with self.db.read() as connection:
            before = self.load(connection, context, key, None)
            if not exists(connection, linked):
                raise missing
        with self.db.transaction() as tx:
            update_row(tx, bgp_speakers, before, {})
            tx.change(sa.delete(table).where(linked))

    def get_advertised_routes(self, context: Context, key: str) -> Object:
        with self.db.read() as connection:
            speaker = connection.execute(sa.select(bgp_speakers).where(bgp_speakers.c.id == key)).first()
            if speaker is None:
                raise BgpSpeakerNotFound(id=key)
            return {"advertised_routes": [route._asdict() for route in read_routes(connection, speaker)]}


def _id_in(body: object, name: str) -> str:
    """The id that the body of an action names."""
    value = body.get(name) if isinstance(body, dict) else None
    if value is None:
        raise errors.BadRequest(resource="bgp-speaker", msg=f"{name} must be specified")
    try:
        return str(types.Uuid().parse(value))
    except types.Invalid as error:
        raise errors.BadRequest(resource="bgp-speaker", msg=f"{name}: {error}") from None
