"""Failed logins by client address, in a table of bounded size.

An address with too many failures is refused until the oldest of them has expired. Each worker has a table of its own: a
client may fail in each of them, which changes the limit by a small factor only.
"""

import ipaddress
import threading
from collections import OrderedDict, deque
from collections.abc import Callable

MAX_ADDRESSES = 4096


class Attempts:
    def __init__(self, limit: int, period: float, clock: Callable[[], float]) -> None:
        self._limit, self._period, self._clock = limit, period, clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()  # the least recently failed address first
        self._lock = threading.Lock()

    def wait(self, address: str) -> float:
        """Seconds until the address may try again; 0: now."""
        with self._lock:
            times = self._recent(network_of(address))
            return max(0.0, times[0] + self._period - self._clock()) if len(times) >= self._limit else 0.0

    def failed(self, address: str) -> None:
        key = network_of(address)
        with self._lock:
            times = self._recent(key)
            times.append(self._clock())
            self._failures[key] = times
            self._failures.move_to_end(key)
            while len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)

    def __len__(self) -> int:
        return len(self._failures)

    def _recent(self, key: str) -> deque[float]:
        times = self._failures.get(key)
        if times is None:
            return deque(maxlen=self._limit)
        oldest = self._clock() - self._period
        while times and times[0] <= oldest:
            times.popleft()
        if not times:
            del self._failures[key]
        return times


def network_of(address: str) -> str:
    """Return what counts as one client: of IPv6 the /64, as a client has at least one to choose addresses from."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
