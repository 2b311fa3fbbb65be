"""Run a server for replaying the recording, until Ctrl-C.

python -m tests.conformance.serve [--port N]
python -m tests.conformance.recording.replay --url http://127.0.0.1:N
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys

from tests.conformance.server import RecordedServer


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="port on 127.0.0.1 (default: a free one)")
    options = parser.parse_args(arguments)
    with RecordedServer(options.port) as server:
        until_interrupted(f"{server.url} serves until Ctrl-C; its files are in {server.directory}\n")
    return 0


def until_interrupted(words: str) -> None:
    """Print the lines, and wait for Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.write(words)
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
