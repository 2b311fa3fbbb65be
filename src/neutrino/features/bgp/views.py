"""Reading BGP speakers and peers: the views of the API."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.errors import BgpPeerNotFound, BgpSpeakerNotFound
from neutrino.features.bgp.tables import bgp_peers, bgp_speaker_networks, bgp_speaker_peers, bgp_speakers
from neutrino.model.objects import Object
from neutrino.server.db.view import Added, View

BATCH = 1000


def _linked(table: sa.Table, column: str) -> Callable[[Connection, Sequence[Object]], list[list[str]]]:
    """Reads the ids that speakers have in a table."""
    speaker, key = table.c.bgp_speaker_id, table.c[column]
    statement = sa.select(speaker.label("speaker"), key.label("key")).order_by(key)

    def read(connection: Connection, rows: Sequence[Object]) -> list[list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        ids = [row["id"] for row in rows]
        for start in range(0, len(ids), BATCH):
            for row in connection.execute(statement.where(speaker.in_(ids[start : start + BATCH]))):
                found[row.speaker].append(row.key)
        return [found[key] for key in ids]

    return read


SPEAKERS = View(bgp_speakers, hidden=("revision_number",), not_found=BgpSpeakerNotFound).composed(
    {
        "peers": Added(("id",), _linked(bgp_speaker_peers, "bgp_peer_id")),
        "networks": Added(("id",), _linked(bgp_speaker_networks, "network_id")),
    }
)
PEERS = View(bgp_peers, hidden=("password",), not_found=BgpPeerNotFound)
