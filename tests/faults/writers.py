"""One process of several that create ports on one network: `python -m tests.faults.writers PORT PROJECT NETWORK N THREADS`.

Prints what each request was answered: its status, and the port's addresses and MAC.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.faults.live import Client


def main(port: int, project: str, network: str, number: int, threads: int) -> list[list[Any]]:
    def create(_: int) -> list[Any]:
        answer = Client(port, project).call("POST", "/v2.0/ports", {"port": {"network_id": network}})
        made = answer.body.get("port", {}) if answer.body else {}
        return [answer.status, [f["ip_address"] for f in made.get("fixed_ips", [])], made.get("mac_address")]

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(create, range(number)))


if __name__ == "__main__":
    port, project, network, number, threads = sys.argv[1:]
    sys.stdout.write(json.dumps(main(int(port), project, network, int(number), int(threads))))
