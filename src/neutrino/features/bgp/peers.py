"""BGP peers: the API. A change of a peer's password is a change of the speakers that have it."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.errors import BgpPeerNotAuthenticated, InvalidBgpPeerMd5Authentication
from neutrino.features.bgp.resources import MD5
from neutrino.features.bgp.tables import bgp_peers, bgp_speaker_peers
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db.transaction import Transaction


class BgpPeers(Collection):
    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for peer in objects:
            if peer["auth_type"] == MD5 and peer["password"] is None:
                raise InvalidBgpPeerMd5Authentication()

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        if "password" in after:  # the view does not have it: only an update does
            if after["password"] is not None and before["auth_type"] != MD5:
                raise BgpPeerNotAuthenticated(bgp_peer_id=before["id"])
            # Without it the session would silently be unauthenticated.
            if after["password"] is None and before["auth_type"] == MD5:
                raise InvalidBgpPeerMd5Authentication()

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        """Log the speakers that have the peer: a change of the peer is one of theirs."""
        if before is None:
            return
        # A speaker that gets the peer now waits: it would be missed here, and its host would not learn of the change.
        tx.execute(sa.select(bgp_peers.c.id).where(bgp_peers.c.id == before["id"]).with_for_update())
        of_peer = bgp_speaker_peers.c.bgp_peer_id == before["id"]
        for speaker in tx.execute(sa.select(bgp_speaker_peers.c.bgp_speaker_id).where(of_peer)).scalars().all():
            tx.record("bgp_speaker", speaker)
