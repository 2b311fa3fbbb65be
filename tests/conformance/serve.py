"""Runs a server to which the recording can be put, until Ctrl-C.

python -m tests.conformance.serve [--port N]
python -m tests.conformance.recording.replay --url http://127.0.0.1:N
"""

from __future__ import annotations

import argparse
import signal
import sys

from tests.conformance.server import RecordedServer


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="port on 127.0.0.1 (default: a free one)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with RecordedServer(options.port) as server:
        sys.stdout.write(f"{server.url} serves until Ctrl-C; its files are in {server.directory}\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
