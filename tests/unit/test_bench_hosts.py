"""The layout of the benchmark with many hosts, and its table."""

from __future__ import annotations

from typing import Any

from qa.bench import resync_report
from qa.bench.hosts_report import markdown, missed
from qa.bench.layout import QUICK, Sizes, host_names, networks, tunneling_ip


def test_the_layout_has_as_many_ports_as_it_says() -> None:
    for sizes in (Sizes(), QUICK):
        hosts = host_names(sizes.hosts)
        made = networks(sizes, hosts)
        assert sum(len(network.hosts) for network in made) == sizes.all_ports
        assert made[-1].everywhere == set(hosts)
        low, high = sizes.spread
        assert all(low <= len(network.everywhere) <= high for network in made[:-1])
        assert made == networks(sizes, hosts)
    assert Sizes().hosts == 5_000
    assert Sizes().all_ports == 100_000


def test_every_host_has_an_address_of_its_own() -> None:
    assert len({tunneling_ip(number) for number in range(5000)}) == 5000


def _raw(**changed: float) -> dict[str, Any]:
    times = {"p50_ms": 20.4, "p95_ms": 40.0, "items": 100}
    slow = {"p50_ms": changed.get("list_ms", 4.0), "p95_ms": 9.0, "items": 100}
    return {
        "database": "sqlite",
        "hosts": 5000,
        "ports": 100_000,
        "networks": 951,
        "results": {
            "new_port": {"ordinary": times, "everywhere": times},
            "stuck": times,
            "stuck_hosts": 50,
            "start": {"first_200_s": 1.5, "feed_s": 6.0, "feed_cpu_s": 5.0},
            "snapshots": {"s": 25.0, "wired_s": 31.5, "feed_cpu_s": 20.0, "server_cpu_s": 0.5, "hosts_cpu_s": 30.0},
            "resync": {
                "after_kill_s": changed.get("after_kill_s", 7.25),
                "feed_cpu_s": 7.5,
                "server_cpu_s": 2.0,
                "hosts_cpu_s": 3.0,
            },
            "connect_s": 3.0,
            "create_s": 20.0,
            "empty": {"create": {"p50_ms": 2.0}, "show": {"p50_ms": 0.5}},
            "full": {"create": {"p50_ms": 3.0}, "show": {"p50_ms": 0.6}},
            "lists": {"limit": times, "name": slow} if "list_ms" in changed else {"name": slow},
            "memory": {
                "empty": 30.0,
                "alone": 390.0,
                "connected": 540.0,
                "snapshots": 600.0,
                "server": 800.0,
                "host": 0.02,
            },
            "compared": 5000,
            "idle": {"reports_per_s": 33.3, "feed_cpu_percent": 4.0, "server_cpu_percent": 4.5},
        },
    }


def test_the_table_has_every_figure() -> None:
    table = markdown(_raw())
    assert "| a new port known to all hosts of its network, 95th percentile | 100 ms | 40 ms | yes |" in table
    assert "| the same while 50 hosts do not read | 1,000 ms | 40 ms | yes |" in table
    assert "| create a port: times as long as on the empty system (2.00 ms) | 2.0 × | 1.50 × (3.00 ms) | yes |" in table
    assert "| with the ports, all hosts connected | 540 MB, 31 kB per host |" in table
    assert "| in sync again, after the start | 2.5 | 0.50 ms | 2.0 | 3.0 |" in table
    assert missed(_raw()) == []


def test_the_table_of_storms_is_a_part_of_it() -> None:
    raw = _raw()
    rows = [line for line in resync_report.markdown(raw).splitlines() if line.startswith("|")][2:]
    assert "| all hosts in sync after the server was killed | 10 s | 7.2 s | yes |" in rows
    assert set(rows) <= set(markdown(raw).splitlines())
    assert resync_report.missed(_raw(after_kill_s=10.5)) == ["all hosts in sync after the server was killed"]


def test_missed_targets_are_named() -> None:
    assert missed(_raw(after_kill_s=21.0)) == ["all hosts in sync after the server was killed"]
    (text,) = missed(_raw(list_ms=30.0))
    assert "any of 2 lists" in text
    assert "slowest: name" in text


def test_figures_of_an_earlier_release_are_shown_without_what_they_lack() -> None:
    raw = _raw()
    for name in ("start", "snapshots", "resync"):
        del raw["results"][name]
    table = markdown(raw)
    assert "| first snapshots of 5,000 hosts | 60 s | not measured | no |" in table
    assert "processor time | feed" not in table
