"""The program that `placement.Placement` runs: `placement_server.py PORT`, configured by OS_PLACEMENT_CONFIG_DIR."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    port = int(sys.argv[1])
    del sys.argv[1:]  # Placement would parse them as its own options
    from placement.wsgi import init_application

    make_server("127.0.0.1", port, init_application(), _Server, _Handler).serve_forever()


main()
