"""A rate limit as hosts get it: what the server's half and the hosts' half share."""

from neutrino.model.kinds import Kind
from neutrino.model.roles import L2
from neutrino.model.state import Object


class RateLimit(Object, frozen=True, kw_only=True, omit_defaults=True):
    port_id: str
    packets_per_second: int = 0


KIND = Kind("rate_limit", RateLimit, frozenset({L2}), "rate_limits")
