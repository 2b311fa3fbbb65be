"""Where the feed is to listen, by the options. It imports little: the process that watches over the others asks it too."""

from __future__ import annotations

import os
import ssl

from oslo_config import cfg

from neutrino.feed.address import Address, BadAddress, parse
from neutrino.server.config import RefusedToStart


def addresses(conf: cfg.ConfigOpts) -> list[Address]:
    """Where the feed is to be, or RefusedToStart."""
    if not conf.feed.bind:
        return [Address(path=os.path.abspath(os.path.join(conf.state_path, "feed.sock")))]
    has_tls = bool(conf.feed.tls_cert_file)
    out = []
    for text in conf.feed.bind:
        try:
            address = parse(text, tls=has_tls)
        except BadAddress as error:
            raise RefusedToStart(f"[feed] bind: {error}") from None
        if address.tls and not has_tls:
            raise RefusedToStart(f"[feed] bind={text} needs tls_cert_file and tls_key_file")
        if not address.tls and not address.is_local:
            raise RefusedToStart(
                f"[feed] bind={text} can be reached from other machines, and without TLS everybody on the way could "
                "read the hosts' credentials: set tls_cert_file and tls_key_file, or use loopback or unix:/path"
            )
        out.append(address)
    return out


def server_tls(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    if not conf.feed.tls_cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(conf.feed.tls_cert_file, conf.feed.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise RefusedToStart(f"[feed] the TLS certificate cannot be used: {error}") from None
    return context
