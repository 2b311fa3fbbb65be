"""Metered traffic of this host: reads the routers' counters, and reports their totals to the server.

The kernel counts; this agent only remembers how far it has read. A counter's total is what it has counted since it was
created, also in the time of earlier agents: the ledger, a file below state_path, has each total and the value at which
the counter was read last. It is written with each reading, so an agent that is killed at any moment continues where it
was. A counter that is removed keeps its total until the server has it, and is then forgotten.

Counters are read every `measure_interval` seconds, and before a change of their router, which may remove them.
"""

import asyncio
import dataclasses
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from neutrino import daemon_files
from neutrino.agent.l3.config import MeterOptions
from neutrino.agent.l3.names import METERING_PATH, ROUTER, SNAT, label_of, router_namespace, snat_namespace
from neutrino.agent.l3.services.api import Put, RouterService, Serving
from neutrino.agent.runtime.role import RoleFeed
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.nft.api import Count, Nft, NftError
from neutrino.model.routing import MeteredTraffic, Router

LOG = logging.getLogger(__name__)
FILE = "metering.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Entry(msgspec.Struct, kw_only=True):
    """A counter: of a label, in a namespace."""

    id: str
    namespace: str
    router_id: str
    label_id: str
    project_id: str
    packets: int = 0  # in total
    bytes: int = 0
    read_packets: int = 0  # the value when it was read last
    read_bytes: int = 0
    first_update: int
    last_update: int
    ended: bool = False  # it does not exist any more
    reported: bool = False  # since it ended


class Ledger(msgspec.Struct, kw_only=True):
    boot: str
    entries: list[Entry] = []

    def update(self, namespace: str, owner: tuple[str, str], counts: Mapping[str, Count], now: int) -> None:
        """Take the counters of a namespace, by label, as they are now; `owner` are its router and project."""
        there = {each.label_id: each for each in self.entries if each.namespace == namespace and not each.ended}
        for label_id, count in counts.items():
            entry = there.pop(label_id, None)
            if entry is None:
                entry = _new(namespace, owner, label_id, now)
                self.entries.append(entry)
            entry.project_id = owner[1] or entry.project_id
            # Lower: it was created anew without us, as by an operator.
            again = count.packets < entry.read_packets or count.bytes < entry.read_bytes
            entry.packets += count.packets - (0 if again else entry.read_packets)
            entry.bytes += count.bytes - (0 if again else entry.read_bytes)
            entry.read_packets, entry.read_bytes, entry.last_update = count.packets, count.bytes, now
        for entry in there.values():
            entry.ended = True

    def forget_reported(self) -> None:
        """The server has the last report: what ended before it is not needed any more."""
        self.entries = [entry for entry in self.entries if not (entry.ended and entry.reported)]

    def report(self) -> list[MeteredTraffic]:
        for entry in self.entries:
            entry.reported = entry.ended
        return [
            MeteredTraffic(
                id=entry.id,
                label_id=entry.label_id,
                router_id=entry.router_id,
                project_id=entry.project_id,
                packets=entry.packets,
                bytes=entry.bytes,
                first_update=entry.first_update,
                last_update=entry.last_update,
            )
            for entry in self.entries
        ]


def _new(namespace: str, owner: tuple[str, str], label_id: str, now: int) -> Entry:
    router_id, project_id = owner
    return Entry(
        id=uuid.uuid4().hex,
        namespace=namespace,
        router_id=router_id,
        label_id=label_id,
        project_id=project_id,
        first_update=now,
        last_update=now,
    )


@dataclasses.dataclass
class MeterReports(RouterService):
    """Reads and reports the counters periodically, and reads those of a router before and after it changes.

    Both: a counter that is removed and created again before the next reading would be taken for the old one.
    """

    meters: "Meters"
    feed: RoleFeed
    options: MeterOptions
    routers: Callable[[], Iterable[Router]]
    _has_reported: bool = True  # an earlier agent may have
    _metered: dict[str, Router] = dataclasses.field(default_factory=dict)  # with labels, as last applied

    async def start(self, put: Put) -> None:
        await self.measure()  # labels may be gone since an earlier agent

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        next_report = loop.time()
        while True:
            await asyncio.sleep(self.options.measure_interval)
            await self.measure()
            if loop.time() >= next_report:
                next_report = loop.time() + self.options.report_interval
                await self._report()

    async def measure(self) -> None:
        metered = {router.id: router.project_id for router in self.routers() if router.metering_labels}
        await asyncio.to_thread(self._tried, self.meters.measure, metered)

    async def release(self, router: Router, serving: Serving) -> None:
        if self._metered.get(router.id, router) != router:
            await self._measure_one(router.id)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        if self._metered.get(router.id, router) != router:
            await self._measure_one(router.id)
        if router.metering_labels:
            self._metered[router.id] = router
        else:
            self._metered.pop(router.id, None)
        return []

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._measure_one(router_id)

    async def removed(self, router_id: str) -> None:
        await self._measure_one(router_id)
        self._metered.pop(router_id, None)

    async def _measure_one(self, router_id: str) -> None:
        if (router := self._metered.get(router_id)) is not None:
            await asyncio.to_thread(self._tried, self.meters.measure_one, router.id, router.project_id)

    def _tried(self, measure: Callable[..., None], *args: object) -> None:
        try:
            measure(*args)
        except NetlinkError as error:  # metering must not stop routers
            LOG.warning("metering counters cannot be read: %s", error)

    async def _report(self) -> None:
        acknowledged = self.feed.is_traffic_acknowledged
        counters = await asyncio.to_thread(self.meters.report, acknowledged=acknowledged)
        # One that is empty, once: the server forgets the counters that it does not name.
        if counters or self._has_reported:
            self.feed.traffic(counters, granular=self.options.granular_traffic_data)
        self._has_reported = bool(counters)


class Meters:
    """Blocking, and may be used from any thread."""

    def __init__(self, nft: Nft, namespaces: Callable[[], Iterable[str]], state_path: str, now: Callable[[], float]):
        self._nft = nft
        self._namespaces = namespaces
        self._path = Path(state_path) / FILE
        self._now = now
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None

    def measure(self, routers: Mapping[str, str]) -> None:
        """Read the counters of these routers, given with their projects, and of all that had some."""
        with self._lock:
            ledger = self._open()
            known = {entry.router_id: entry.project_id for entry in ledger.entries if not entry.ended}
            there = frozenset(self._namespaces())
            for router_id, project_id in {**known, **routers}.items():
                self._read(ledger, router_id, project_id, there)
            self._save(ledger)

    def measure_one(self, router_id: str, project_id: str) -> None:
        """Read the counters of one router, before they may be removed."""
        with self._lock:
            ledger = self._open()
            self._read(ledger, router_id, project_id, frozenset(self._namespaces()))
            self._save(ledger)

    def report(self, *, acknowledged: bool) -> list[MeteredTraffic]:
        """All totals; `acknowledged`: the server has those of the last call."""
        with self._lock:
            ledger = self._open()
            if acknowledged:
                ledger.forget_reported()
            found = ledger.report()
            self._save(ledger)
            return found

    def _read(self, ledger: Ledger, router_id: str, project_id: str, there: frozenset[str]) -> None:
        for name in (router_namespace(router_id), snat_namespace(router_id)):
            counts: Mapping[str, Count] = {}
            if name in there:
                try:
                    table = self._nft.read(name).get(METERING_PATH)
                except NftError as error:  # the next reading has what was counted meanwhile
                    LOG.warning("metering counters cannot be read: %s", error)
                    continue
                counts = table.counters if table is not None else {}
            by_label = {label_of(counter): count for counter, count in counts.items()}
            ledger.update(name, (router_id, project_id), by_label, int(self._now()))

    def _open(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self._load() or self._start()
        return self._ledger

    def _load(self) -> Ledger | None:
        try:
            ledger = msgspec.json.decode(self._path.read_bytes(), type=Ledger)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            LOG.warning("cannot read %s (%s): counting from now on", self._path, error)
            return None
        boot = _boot_id()
        if ledger.boot != boot:  # the kernel counts from zero again
            for entry in ledger.entries:
                entry.ended = True
            ledger.boot = boot
        return ledger

    def _start(self) -> Ledger:
        """A new ledger: counters of an agent whose ledger was lost are taken as read."""
        ledger = Ledger(boot=_boot_id())
        for name in self._namespaces():
            if name.startswith((ROUTER, SNAT)):
                self._read(ledger, name.removeprefix(ROUTER).removeprefix(SNAT), "", frozenset({name}))
        for entry in ledger.entries:
            entry.packets = entry.bytes = 0
        self._save(ledger)
        return ledger

    def _save(self, ledger: Ledger) -> None:
        try:
            daemon_files.write(self._path, msgspec.json.encode(ledger).decode())
        except OSError as error:
            LOG.warning("cannot write %s: an agent that is started now may count twice: %s", self._path, error)


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
