"""Listeners of the feed: addresses and TLS from the options, and exclusive use of a Unix socket's path.

Imports little: the supervising process checks the options with it.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oslo_config import cfg

from neutrino import private
from neutrino.errors import RefusedToStart
from neutrino.feed.address import Address, BadAddress, parse
from neutrino.tls import ReloadingContext, reloading_context


def addresses(conf: cfg.ConfigOpts) -> list[Address]:
    """The addresses to listen on, or RefusedToStart."""
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
                f"[feed] bind={text} can be reached from other machines, and without TLS anyone on the network path could "
                "read the hosts' credentials: set tls_cert_file and tls_key_file, or use loopback or unix:/path"
            )
        out.append(address)
    return out


def server_tls(conf: cfg.ConfigOpts) -> ReloadingContext | None:
    """TLS of the feed, whose files are read again when they change; None without TLS, or RefusedToStart."""
    options = conf.feed
    if not options.tls_cert_file:
        if options.tls_key_file:
            raise RefusedToStart("[feed] tls_key_file is set, and tls_cert_file is not")
        return None
    return reloading_context(options.tls_cert_file, options.tls_key_file or options.tls_cert_file, group="feed")


@contextmanager
def owned_socket(path: str) -> Iterator[None]:
    """Own a Unix socket's path, or OSError (EADDRINUSE); the socket is removed at the end.

    Ownership is a lock on a file next to it, which the kernel releases however the owner ends. So a socket left behind by a
    killed process is taken over, and one that is being served never is.
    """
    private.make_directory(Path(path).parent)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EADDRINUSE, "another process serves it") from None
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EADDRINUSE, "the path exists and is not a socket")
        try:
            yield
        finally:
            # Before the lock is released: after that the path may be the socket of the next owner.
            Path(path).unlink(missing_ok=True)
    finally:
        os.close(lock)
