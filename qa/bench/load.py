"""The load: a fixed workload for a server of the Networking API v2.0, timed by the client.

  python -m qa.bench.load --url http://127.0.0.1:9696 [--quick] [--repeats N]

It gives one JSON object, operation to figures; times are in milliseconds. Progress goes to standard error. The server
runs without authentication and without quotas, and takes the project from X-Project-Id: the run has one of its own, so
that it can delete all that it made. An answer that is wrong ends the run, for a server that does less is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qa.bench import cleanup, crud, listing, routing, security
from qa.bench.client import Client, LoadError, Target
from qa.bench.workbench import QUICK, Bench, Sizes, identity, progress

SECTIONS: dict[str, Callable[[Bench], None]] = {
    "one client": crud.one_client,
    "several clients": crud.several_clients,
    "lists": listing.run,
    "security groups": security.run,
    "routers": routing.run,
}

_CLEANUP_SECONDS = 300.0


def run_load(
    url: str,
    sizes: Sizes | None = None,
    *,
    seconds: float = 1800.0,
    observe: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run the load against the server at `url`, and return the figures.

    No request is made after `seconds`, but for cleaning up. `observe` is called at moments worth a look from outside:
    "ports_N" while the server has N ports and has listed them.
    """
    bench = opened(url, sizes or Sizes(), seconds)
    if observe is not None:
        bench.observe = observe
    client = bench.client
    started = time.time()
    routed = routing.offered(client)
    try:
        warm_up(bench)
        for name, section in SECTIONS.items():
            if name == "routers" and not routed:
                progress("routers: not offered")
                continue
            progress(name)
            section(bench)
    finally:
        client.target = client.target.until(time.monotonic() + _CLEANUP_SECONDS)
        cleanup.run(bench, routed)
        client.close()
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1),
        "connections_reopened": client.reopened,
        "operations": bench.results,
    }


def opened(url: str, sizes: Sizes, seconds: float, timeout: float = 120.0) -> Bench:
    """A client with a project of its own, which makes no request after `seconds`. `timeout`: of a request."""
    project = uuid.uuid4().hex
    headers = {"X-Project-Id": project, "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
    return Bench(Client(Target(url, headers, time.monotonic() + seconds, timeout)), project, sizes)


def warm_up(bench: Bench) -> None:
    """One request of each kind, not measured."""
    network = bench.create_network("warm-up").item()["id"]
    if bench.client.get(f"/networks/{network}").item()["project_id"] != bench.project:
        bench.client.delete(f"/networks/{network}")
        raise LoadError("the server does not take the project from X-Project-Id")
    bench.create_subnet(network, "10.250.0.0/24")
    port = identity(bench.create_port(network))
    bench.client.get("/ports")
    bench.client.delete(f"/ports/{port}")
    bench.client.delete(f"/networks/{network}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:9696")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--repeats", type=int, help="how many networks, subnets and ports are made one by one")
    parser.add_argument("--seconds", type=float, default=1800.0, help="give up after this long")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    if options.repeats:
        sizes = replace(sizes, repeats=options.repeats)
    try:
        result = run_load(options.url, sizes, seconds=options.seconds)
    except LoadError as error:
        print(f"the load failed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
