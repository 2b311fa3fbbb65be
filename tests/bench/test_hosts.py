"""The layout of the benchmark with many hosts, and its table."""

from __future__ import annotations

from tests.bench.hosts_report import markdown
from tests.bench.layout import QUICK, Sizes, host_names, networks, tunneling_ip


def test_the_layout_has_as_many_ports_as_it_says() -> None:
    for sizes in (Sizes(), QUICK):
        hosts = host_names(sizes.hosts)
        made = networks(sizes, hosts)
        assert sum(len(network.hosts) for network in made) == sizes.all_ports
        assert made[-1].everywhere == set(hosts)
        low, high = sizes.spread
        assert all(low <= len(network.everywhere) <= high for network in made[:-1])
        assert made == networks(sizes, hosts)
    assert Sizes().all_ports == 20_000


def test_every_host_has_an_address_of_its_own() -> None:
    assert len({tunneling_ip(number) for number in range(1000)}) == 1000


def test_the_table_has_every_figure() -> None:
    times = {"p50_ms": 20.4, "p95_ms": 40.0}
    raw = {
        "database": "sqlite",
        "hosts": 1000,
        "ports": 20000,
        "networks": 191,
        "results": {
            "new_port": {"ordinary": times, "everywhere": times},
            "reconnect": {"after_kill_s": 7.25, "after_start_s": 7.0},
            "connect_s": 3.0,
            "create_s": 20.0,
            "wired_s": 25.0,
            "memory": {"empty": 30.0, "alone": 90.0, "connected": 190.0, "server": 280.0, "host": 1.5},
            "idle": {"reports_per_s": 33.3, "feed_cpu_percent": 4.0, "server_cpu_percent": 4.5},
        },
    }
    table = markdown(raw)
    assert "| a new port known to all hosts of its network | 20 ms, 95 % in 40 ms |" in table
    assert "| with the ports, all hosts connected | 190 MB, 102 kB a host |" in table
