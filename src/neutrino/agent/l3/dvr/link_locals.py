"""Link-local addresses of the pairs that join routers with the namespaces of their floating IPs.

Routers of one host that share an external network have to have different ones, and a router keeps its own while the agent
is away. So they are chosen once, and written down: one line for each router, in the file that operators know.
"""

from __future__ import annotations

import ipaddress
import threading
from pathlib import Path

FILE = "fip-linklocal-networks"
POOL = ipaddress.IPv4Network("169.254.64.0/18")
Pair = ipaddress.IPv4Network
"""Two addresses: the router's first, then that of the floating IPs' namespace."""


class NoLinkLocalLeft(OSError):
    """More routers have floating IPs on this host than there are pairs of addresses."""


class LinkLocals:
    """May be asked from any thread."""

    def __init__(self, state_path: str) -> None:
        self._path = Path(state_path) / FILE
        self._lock = threading.Lock()

    def known(self, router_id: str) -> Pair | None:
        with self._lock:
            return self._read().get(router_id)

    def take(self, router_id: str) -> Pair:
        with self._lock:
            held = self._read()
            if router_id not in held:
                used = set(held.values())
                free = next((pair for pair in POOL.subnets(new_prefix=31) if pair not in used), None)
                if free is None:
                    raise NoLinkLocalLeft(f"all addresses of {POOL} are used by routers with floating IPs")
                held[router_id] = free
                self._write(held)
            return held[router_id]

    def release(self, router_id: str) -> None:
        with self._lock:
            held = self._read()
            if held.pop(router_id, None) is not None:
                self._write(held)

    def _read(self) -> dict[str, Pair]:
        held: dict[str, Pair] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                router_id, comma, text = line.strip().partition(",")
                try:
                    pair = ipaddress.IPv4Network(text)
                except ValueError:
                    continue  # half a line of a host that lost power: the router takes another
                if comma and pair.prefixlen == 31 and pair.subnet_of(POOL) and pair not in held.values():
                    held[router_id] = pair
        return held

    def _write(self, held: dict[str, Pair]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f"{FILE}.new")
        new.write_text("".join(f"{router_id},{pair}\n" for router_id, pair in sorted(held.items())))
        new.replace(self._path)
