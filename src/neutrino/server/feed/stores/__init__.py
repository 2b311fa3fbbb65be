"""Stores: the objects of one kind, which hosts receive them, and what a change or a subscription marks as due. Pure.

`ServedKind` is the server's half of a kind. Each store answers the same questions: `put` a record's new value,
`notify` that a host gained or lost a topic, `lookup` an object for a host, the `digests` of everything a host should have,
and what to `touch` where a digest differs. The store class says how objects are shared out:

- `SharedObjects`: one value for all hosts subscribed to its topic;
- `HostObjects`: a value per host, which is also what makes the host receive it;
- `PeerHosts`: hosts receive each other while they have a tunnelled network in common;
- `ForwardingEntries`: one digest for all entries of a network, a host's own entries left out;
- `MemberSets`: addresses of a security group, sent as differences.

What is due goes into the queues of `queues.py`.
"""

from neutrino.server.feed.stores.forwarding import ForwardingEntries, PeerHosts
from neutrino.server.feed.stores.members import MemberSets
from neutrino.server.feed.stores.objects import HostObjects, Reader, ServedKind, SharedObjects, Store

__all__ = (
    "ForwardingEntries",
    "HostObjects",
    "MemberSets",
    "PeerHosts",
    "Reader",
    "ServedKind",
    "SharedObjects",
    "Store",
)
