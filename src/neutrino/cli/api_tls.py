"""Certificate reload of the API: granian's workers are replaced, one by one, when the files of `[ssl]` have changed.

A worker reads its certificate at its start, and granian passes it paths. These are of copies in memory, made of files that
were checked: a worker that is respawned while the files on disk are invalid starts with the last valid ones.
"""

import logging
import os
import ssl
import threading
from pathlib import Path

from oslo_config import cfg

from neutrino.cli.workers import Supervisor
from neutrino.errors import RefusedToStart
from neutrino.model.objects import Object
from neutrino.server.tls import api_tls
from neutrino.tls import CHECK_SECONDS, TlsFiles, Watch, memory_file

LOG = logging.getLogger(__name__)
GRANIAN_VERSIONS = {ssl.TLSVersion.TLSv1_2: "tls1.2", ssl.TLSVersion.TLSv1_3: "tls1.3"}


def granian_options(files: TlsFiles | None) -> Object:
    """The arguments of granian's server: by them it checks the files, and prints https:// as its address."""
    from granian.constants import SSLProtocols

    if files is None:
        return {}
    return {
        "ssl_cert": Path(files.cert),
        "ssl_key": Path(files.key),
        "ssl_ca": Path(files.ca) if files.ca else None,
        "ssl_client_verify": bool(files.ca),
        "ssl_protocol_min": SSLProtocols(GRANIAN_VERSIONS[files.lowest]),
    }


class ApiCertificate:
    """Watches the TLS files of the API, in a thread of the supervising process."""

    def __init__(self, api: Supervisor, files: TlsFiles) -> None:
        self._api = api
        self._watch = Watch(files)
        self._descriptors: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="certificates")
        self._use_copies()

    def __enter__(self) -> None:
        self._api.respawns.before_respawn = self._use_copies
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(CHECK_SECONDS + 1)

    def _run(self) -> None:
        while not self._stop.wait(CHECK_SECONDS):
            if self._watch.check():
                self._api.replace_workers()

    def reload(self, conf: cfg.ConfigOpts) -> None:
        """After SIGHUP: read the files at once, also if the options name others now."""
        try:
            files = api_tls(conf)
        except RefusedToStart as error:
            LOG.error("the TLS files of the API are not used, the previous ones stay in use: %s", error)
            return
        if files is None:
            LOG.warning("use_ssl was switched off: this needs a restart, the API is served with TLS until then")
        elif files != self._watch.files:
            self._watch = Watch(files)
        else:
            self._watch.check(now=True)

    def _use_copies(self) -> None:
        """In the thread that forks workers: between this call and the fork, no descriptor of a copy is closed."""
        files, content = self._watch.files, self._watch.loaded.content
        old = self._descriptors
        self._descriptors = [memory_file(content[path]) for _, path in files.named()]
        paths = [f"/proc/self/fd/{number}" for number in self._descriptors]
        ca = paths[2] if files.ca else None
        self._api.ssl_ctx = (True, paths[0], paths[1], None, GRANIAN_VERSIONS[files.lowest], ca, [], bool(files.ca))
        for number in old:
            os.close(number)
