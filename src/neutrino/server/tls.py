"""TLS of the API server: the options `use_ssl` and `[ssl]`, under the names of oslo.service, checked before the start."""

import logging
import ssl

from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.tls import TlsFiles, load

LOG = logging.getLogger(__name__)
GROUP = "ssl"
OPTIONS = [
    cfg.StrOpt("cert_file", help="Certificate of the API server, with its chain."),
    cfg.StrOpt("key_file", help="Its key."),
    cfg.StrOpt("ca_file", help="If set, clients need a certificate that chains to one of these CA certificates."),
    cfg.StrOpt(
        "version",
        help="The lowest version of TLS: TLSv1_2 (also SSLv23, which means the best that both support) or TLSv1_3.",
    ),
]
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = {"": TLS12, "sslv23": TLS12, "tlsv1_2": TLS12, "tlsv1_3": TLS13}


def api_tls(conf: cfg.ConfigOpts) -> TlsFiles | None:
    """The TLS files of the API; None without TLS. RefusedToStart if a file is missing or cannot be used."""
    options = conf.ssl
    if not conf.use_ssl:
        if options.cert_file or options.key_file:
            LOG.warning(
                "[ssl] cert_file and key_file have no effect: use_ssl is off, and the API is served without TLS"
            )
        return None
    for name in ("cert_file", "key_file"):
        if not options[name]:
            raise RefusedToStart(f"use_ssl is on, and [ssl] {name} is not set")
    lowest = VERSIONS.get((options.version or "").lower())
    if lowest is None:
        raise RefusedToStart(f"[ssl] version={options.version} is not supported: use TLSv1_2 or TLSv1_3")
    files = TlsFiles(options.cert_file, options.key_file, options.ca_file or None, group=GROUP, lowest=lowest)
    load(files)
    return files
