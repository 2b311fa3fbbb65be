"""Metered traffic, as hosts report it."""

import msgspec


class MeteredTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of a label in one namespace of a router: all that it has counted since it was created.

    Totals, not differences: a report that is sent twice, or replaced by a newer one, neither adds nor loses anything.
    Times are in whole seconds since the epoch.
    """

    id: str  # of the counter: one that is created anew has another
    label_id: str
    router_id: str
    project_id: str  # of the router
    packets: int
    bytes: int
    first_update: int  # when the counter was read first
    last_update: int
