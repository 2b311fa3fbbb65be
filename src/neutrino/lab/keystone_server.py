"""The Keystone of a lab, and of the tests: a program that creates Keystone's database, then serves its API.

`keystone_server.py CONFIG HOST PORT`, with the settings of the bootstrap in the environment. Importing Keystone takes
seconds, so all steps run in children forked from one process that has imported it already. It runs in Keystone's own Python
environment, so it imports nothing of ours.
"""

import os
import sys

from keystone.cmd import cli
from keystone.server.flask import core
from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep connections open


def _manage(config: str, command: str) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            cli.main(["keystone-manage", "--config-file", config, command])
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, result = os.waitpid(child, 0)
    if result:
        sys.exit(f"keystone-manage {command} failed")


def main() -> None:
    config, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    del sys.argv[1:]  # Keystone would parse them as its own options
    _manage(config, "db_sync")
    _manage(config, "bootstrap")
    application = core.initialize_application("public", config_files=[config])
    make_server(host, port, application, threaded=True, request_handler=Handler).serve_forever()


if __name__ == "__main__":
    main()
