"""Measure the topology page in Chromium with clouds of four sizes, and print a table for docs/benchmarks.md.

    python -m qa.bench.page [--sizes empty,small,medium,large]

Live after: from the start of the navigation until the page is live, and the same with a line of 200 kB/s. Transfer: bytes
on the wire until then, nothing cached. Longest task: of the main thread, at the start and in every view. Frames: a second
while all networks are expanded and the drawing is panned, in software rendering. Heap: of JavaScript after that. Server:
processor time of one load, and of a minute with one tab that is live.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

from qa.bench.machine import machine
from tests.support.browser import Browser, Page
from tests.support.memory import tree
from tests.support.neutrino import Neutrino
from tests.support.ui_cloud import UNLIMITED, huge_cloud

SLOW = 200_000  # bytes a second
IDLE = 20.0  # seconds, of which a minute is computed
VIEWS = ("ports", "networks", "routers", "hosts", "subnets", "health", "trace", "topology")
TASKS = """window.tasks = []; new PerformanceObserver((list) => {
  const where = window.live ? location.hash : 'start';
  for (const each of list.getEntries()) window.tasks.push([Math.round(each.duration), where]);
}).observe({type: 'longtask', buffered: true});"""
# Expands some projects or groups, and shows all of the drawing; true at the end. In parts, each of which is soon done.
EXPAND = """(async () => {
  const fit = () => document.querySelector("[aria-label='Fit to the window']").click();
  for (let n = 0; n < 5; n += 1) {
    fit();
    let card = null;
    for (let frame = 0; frame < 60 && !card; frame += 1) { // elements are drawn in slices
      await new Promise(requestAnimationFrame);
      card = document.querySelector('.n-project, .n-group');
    }
    if (!card) return true;
    card.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  }
  return false;
})()"""
PAN = """new Promise((resolve) => {
  const svg = document.querySelector('svg.graph');
  const began = performance.now();
  let frames = 0;
  const step = () => {
    frames += 1;
    const back = Math.floor((performance.now() - began) / 500) % 2 ? -1 : 1;
    svg.dispatchEvent(new WheelEvent('wheel', {deltaY: 12 * back, shiftKey: true, bubbles: true, cancelable: true}));
    if (performance.now() - began < 3000) requestAnimationFrame(step);
    else resolve(frames / 3);
  };
  requestAnimationFrame(step);
})"""


@dataclass(frozen=True, slots=True)
class Size:
    name: str
    projects: int
    networks: int  # of each project
    ports: int


SIZES = (Size("empty", 0, 0, 0), Size("small", 2, 4, 40), Size("medium", 10, 20, 1_000), Size("large", 40, 57, 11_800))


@dataclass(frozen=True, slots=True)
class Figures:
    size: Size
    drawn: int  # networks while panning
    live: float  # seconds
    live_slowly: float
    transfer: int  # bytes
    longest: int  # milliseconds
    where: str  # the view of the longest task
    frames: float  # a second
    heap: float  # MB
    load: float  # seconds of the server's processors
    minute: float


def processor_seconds(root: int) -> float:
    ticks = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def load(page: Page, url: str) -> float:
    began = time.monotonic()
    page.goto(f"{url}/ui/")
    page.wait_for("document.querySelector('.connection.is-live') !== null", 180)
    return time.monotonic() - began


def measured(browser: Browser, size: Size) -> Figures:
    with Neutrino({**UNLIMITED, "feed": {"run": True}}) as server:
        if size.projects:
            huge_cloud(server.url, projects=size.projects, networks=size.networks, ports=size.ports)
        with browser.page() as page:
            page.call(
                "Network.emulateNetworkConditions",
                offline=False,
                latency=20,
                downloadThroughput=SLOW,
                uploadThroughput=SLOW,
            )
            live_slowly = load(page, server.url)
        with browser.page() as page:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=TASKS)
            before = processor_seconds(server.pids[0])
            live = load(page, server.url)
            page.evaluate("window.live = true")
            loaded = processor_seconds(server.pids[0]) - before
            transfer = page.evaluate(
                "[performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]"
                ".reduce((sum, each) => sum + each.transferSize, 0)"
            )
            before = processor_seconds(server.pids[0])
            time.sleep(IDLE)
            minute = (processor_seconds(server.pids[0]) - before) * 60 / IDLE
            for view in VIEWS:
                page.evaluate(f"location.hash = '#/{view}'")
                page.wait_for(f"document.querySelector('.view-{view}') !== null")
                time.sleep(1)
            tasks = page.evaluate("window.tasks")
            print(sorted(tasks, reverse=True)[:8], flush=True)
            longest, where = max(tasks, default=(0, ""))
            while not page.evaluate(EXPAND):
                pass
            time.sleep(6)  # all of it is drawn
            drawn = page.count(".n-network")
            frames = page.evaluate(PAN)
            page.call("HeapProfiler.collectGarbage")
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    return Figures(
        size, drawn, live, live_slowly, transfer, longest, where.removeprefix("#/"), frames, heap, loaded, minute
    )


def table(rows: list[Figures]) -> str:
    head = (
        "| cloud | networks | ports | live after | at 200 kB/s | transfer | longest task | frames while panning | heap | "
        "server, one load | server, a minute |"
    )
    lines = [head, "|---|" + "---:|" * 10]
    for row in rows:
        size = row.size
        cells = [
            size.name,
            f"{size.projects * size.networks:,}",
            f"{size.ports:,}",
            f"{row.live:.1f} s",
            f"{row.live_slowly:.1f} s",
            f"{row.transfer / 1000:,.0f} kB",
            f"{row.longest} ms ({row.where})" if row.longest else "below 50 ms",
            f"{row.frames:.0f}/s ({row.drawn:,} networks)",
            f"{row.heap:.0f} MB",
            f"{row.load:.2f} s",
            f"{row.minute:.2f} s",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(size.name for size in SIZES))
    wanted = parser.parse_args().sizes.split(",")
    print(machine())
    rows: list[Figures] = []
    with Browser() as browser:
        for size in SIZES:
            if size.name in wanted:
                rows.append(measured(browser, size))
                print(rows[-1], flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
