"""TLS of the API server: the options `use_ssl` and `[ssl]`, under the names of oslo.service, checked before the start."""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from neutrino.errors import RefusedToStart

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
VERSIONS = {"": "tls1.2", "sslv23": "tls1.2", "tlsv1_2": "tls1.2", "tlsv1_3": "tls1.3"}


@dataclass(frozen=True)
class ApiTls:
    cert_file: str
    key_file: str
    ca_file: str | None
    lowest_version: str  # as granian names it


def api_tls(conf: cfg.ConfigOpts) -> ApiTls | None:
    """The TLS settings; None without TLS. RefusedToStart if a file is missing or cannot be used."""
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in ("cert_file", "key_file", "ca_file"):  # OpenSSL does not name the file that it cannot open
        _check(name, options[name], lambda path: open(path).close())
    _check("cert_file", options.cert_file, lambda path: context.load_cert_chain(path, options.key_file, _no_password))
    _check("ca_file", options.ca_file, context.load_verify_locations)
    return ApiTls(options.cert_file, options.key_file, options.ca_file or None, lowest)


def _check(name: str, path: str | None, load: Callable[[str], Any]) -> None:
    if not path:
        return
    try:
        load(path)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        also = " (with [ssl] key_file)" if name == "cert_file" else ""
        raise RefusedToStart(f"[ssl] {name}={path}{also} cannot be used: {reason.replace('_', ' ').lower()}") from None
    except OSError as error:
        raise RefusedToStart(f"[ssl] {name}={path} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    """Called for an encrypted key. Without it, OpenSSL would ask for the password on the terminal, and wait."""
    raise RefusedToStart("[ssl] key_file is encrypted: the server needs a key without a password")
