"""What ports and tunnels of a host count within an interval, as hosts report it."""

from typing import Final, NamedTuple

MAX_PORTS: Final = 2000  # in one report; of more, those with the most bytes
MAX_TUNNELS: Final = 2000
MAX_SECONDS: Final = 3600
MAX_COUNTED: Final = 2**50  # of one counter in one report


class Counted(NamedTuple):
    """Counters of a port, or their difference. `in` is to the instance or router that has the port, `out` from it; of a
    tunnel, `in` is from the other host.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    packets_in: int = 0
    packets_out: int = 0
    drops_in: int = 0
    drops_out: int = 0
