"""BGP peers: the API. A change of a peer's password is a change of the speakers that have it."""

from collections.abc import Sequence

import sqlalchemy as sa

from neutrino.features.bgp.errors import BgpPeerNotAuthenticated, InvalidBgpPeerMd5Authentication
from neutrino.features.bgp.resources import MD5
from neutrino.features.bgp.tables import bgp_peers, bgp_speaker_peers
from neutrino.features.bgp.views import PEERS
from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.objects import as_row, new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.view_collection import ViewCollection


class BgpPeers(ViewCollection):
    def __init__(self, db: Database) -> None:
        super().__init__(db, PEERS)

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, items: Sequence[Object]) -> list[Object]:
        for item in items:
            if item["auth_type"] == MD5 and item["password"] is None:
                raise InvalidBgpPeerMd5Authentication()
        made = [{"id": new_id(), "tenant_id": item["project_id"], **item} for item in items]
        with self.db.transaction() as tx:
            tx.insert(bgp_peers, [as_row(bgp_peers, each) for each in made])
        return [_shown(each) for each in made]

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = PEERS.get(connection, key)
        if "password" in values:
            if values["password"] is not None and before["auth_type"] != MD5:
                raise BgpPeerNotAuthenticated(bgp_peer_id=key)
            # Without it the session would silently be unauthenticated.
            if values["password"] is None and before["auth_type"] == MD5:
                raise InvalidBgpPeerMd5Authentication()
        with self.db.transaction() as tx:
            _lock(tx, key)
            if values:
                tx.change(sa.update(bgp_peers).where(bgp_peers.c.id == key).values(values))
            _log(tx, before)
        return _shown({**before, **values})

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = PEERS.get(connection, key)
        with self.db.transaction() as tx:
            _lock(tx, key)
            _log(tx, before, deleted=True)
            tx.change(sa.delete(bgp_peers).where(bgp_peers.c.id == key))


def _lock(tx: Transaction, key: str) -> None:
    """Have a speaker that gets the peer now wait: `_log` would miss it, and its host would not learn of the change."""
    tx.execute(sa.select(bgp_peers.c.id).where(bgp_peers.c.id == key).with_for_update())


def _log(tx: Transaction, peer: Object, *, deleted: bool = False) -> None:
    tx.log(bgp_peers, peer, deleted=deleted)
    for speaker in (
        tx.execute(sa.select(bgp_speaker_peers.c.bgp_speaker_id).where(bgp_speaker_peers.c.bgp_peer_id == peer["id"]))
        .scalars()
        .all()
    ):
        tx.record("bgp_speaker", speaker)


def _shown(peer: Object) -> Object:
    """A peer without its password: answers and notifications never have it."""
    return {name: value for name, value in peer.items() if name != "password"}
