"""How the switch says to a distributed router that a packet is a reply: by the source MAC (`l2/flows/routed_replies.py`).

A packet carries nothing else from the switch into a namespace: marks do not cross it, and headers above Ethernet belong to
the instance. A router has no other use for the source MAC of an IP packet.
"""

from typing import Final

REPLY_MAC: Final = "02:6e:74:72:6e:01"  # locally administered, of no port
UNKNOWN_MAC: Final = "02:6e:74:72:6e:00"  # instead of the former, in packets whose sender uses it itself
