"""Scrapes of a process' metrics, as Prometheus reads them."""

from __future__ import annotations

import math
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.support.process import wait_until


@dataclass(frozen=True)
class Scrape:
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]
    types: dict[str, str]  # by the name of the family as it is queried: of a counter with _total

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels, and maybe others."""
        wanted = set(labels.items())
        found = [value for (each, has), value in self.samples.items() if each == name and wanted <= has]
        return sum(found) if found else math.nan

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


def parse(text: str) -> Scrape:
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    types = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name not in types, f"{name} is twice in one scrape"
        types[name] = family.type
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples, f"{key} is twice in one scrape"
            samples[key] = sample.value
    return Scrape(samples, types)


def scrape(address: str) -> Scrape:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return parse(answer.read().decode())


def wait_for(address: str, reached: Callable[[Scrape], bool], what: str, seconds: float = 40.0) -> Scrape:
    """Scrape until the condition holds."""
    last: list[Scrape] = []

    def holds() -> bool:
        last[:] = [scrape(address)]
        return reached(last[0])

    wait_until(holds, timeout=seconds, what=what, failed=lambda: None)
    return last[0]
