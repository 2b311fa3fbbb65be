"""Numbers of flows and counters of ports, read by messages on one connection to the switch.

Each agent compares the number of flows of each bridge every few seconds: a process for each would be most of what an idle
host costs. The messages are those of OpenFlow 1.4.
"""

import struct

from neutrino.dataplane.openflow import api
from neutrino.dataplane.openflow.connection import (
    ERROR,
    MULTIPART_REPLY,
    MULTIPART_REQUEST,
    connected,
    message,
    received,
)
from neutrino.model.rates import Counted

_AGGREGATE, _PORTS = 2, 4
_MULTIPART = struct.Struct("!HHxxxx")  # type, flags
_MORE = 1  # flag: further replies follow
_ANY_TABLE, _ANY = 0xFF, 0xFFFFFFFF
_EVERY_FLOW = struct.Struct(
    "!BxxxIIxxxxQQHHxxxx"
)  # table, port, group, cookie, mask; type and length of an empty match
_OXM, _EMPTY = 1, 4
_TOTALS = struct.Struct("!QQIxxxx")  # packets, bytes, flows
_PORT = struct.Struct("!Ixxxx")
# length, port, seconds, nanoseconds; packets, bytes, drops, errors: each received and transmitted
_COUNTERS = struct.Struct("!HxxIII8Q")
_LAST_PORT = 0xFFFFFF00  # greater numbers are reserved, such as that of the bridge's own device
_UNKNOWN = 2**64 - 1  # the device has no such counter


def count_flows(address: str, cookie: int, mask: int, seconds: float) -> int:
    """How many flows of a bridge have such a cookie. OpenFlowError if the switch cannot be reached, or does not say it."""
    body = _EVERY_FLOW.pack(_ANY_TABLE, _ANY, _ANY, cookie, mask, _OXM, _EMPTY)
    _, _, flows = _TOTALS.unpack(_asked(address, _AGGREGATE, body, seconds))
    return int(flows)


def read_port_counters(address: str, seconds: float) -> dict[int, Counted]:
    """The counters of a bridge's ports, as its instances see them: what the switch transmits comes in."""
    body, found, place = _asked(address, _PORTS, _PORT.pack(_ANY), seconds), {}, 0
    while place < len(body):
        length, number, _, _, *counters = _COUNTERS.unpack_from(body, place)
        if number < _LAST_PORT:
            rx, tx, rx_bytes, tx_bytes, rx_drop, tx_drop, *_ = (0 if one == _UNKNOWN else one for one in counters)
            found[number] = Counted(tx_bytes, rx_bytes, tx, rx, tx_drop, rx_drop)
        place += max(length, _COUNTERS.size)
    return found


def _asked(address: str, kind: int, body: bytes, seconds: float) -> bytes:
    """All replies to a request, one after the other."""
    replies = b""
    try:
        with connected(address, seconds) as connection:
            connection.sendall(message(MULTIPART_REQUEST, 1, _MULTIPART.pack(kind, 0) + body))
            for type_, transaction, reply in received(connection):
                if type_ == ERROR:
                    raise OSError(f"the switch refuses the request: {reply[:4].hex()}")
                if type_ == MULTIPART_REPLY and transaction == 1:
                    replies += reply[_MULTIPART.size :]
                    if not _MULTIPART.unpack_from(reply)[1] & _MORE:
                        break
        return replies
    except (OSError, struct.error) as error:
        raise api.OpenFlowError(f"statistics at {address} cannot be read: {error}") from error
