"""TLS of all listeners and of the feed's client: files checked by option name, and read again when they change.

A listener passes a `ReloadingContext` where a library wants an `ssl.SSLContext`: new connections are accepted with the
newest valid files, open connections keep theirs. A pair of files that cannot be used is logged, and the previous one stays
in use. The API's workers (granian) read files only at their start: `cli/api_tls.py` replaces them.
"""

import contextlib
import datetime
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from neutrino.errors import RefusedToStart

LOG = logging.getLogger(__name__)
CHECK_SECONDS: Final = 2.0
EXPIRY_WARNING: Final = datetime.timedelta(days=30)
DAY: Final = 86400.0
Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class TlsFiles:
    """The files of a listener, and the options that name them, for messages."""

    cert: str
    key: str
    ca: str | None = None  # if set, clients need a certificate that chains to one of these
    group: str = "ssl"
    options: tuple[str, str, str] = ("cert_file", "key_file", "ca_file")
    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2

    def named(self) -> Iterator[tuple[str, str]]:
        """Option and path of each file."""
        for option, path in zip(self.options, (self.cert, self.key, self.ca), strict=True):
            if path:
                yield f"[{self.group}] {option}", path

    def signature(self) -> Signature:
        """Changes whenever a file is written or replaced, also behind a symbolic link."""
        return tuple(_signature(path) for _, path in self.named())


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(frozen=True)
class Loaded:
    """Valid content of the files, and the context made of it."""

    context: ssl.SSLContext
    content: Mapping[str, bytes]  # by path
    expires: datetime.datetime
    signature: Signature = field(compare=False)


def load(files: TlsFiles) -> Loaded:
    """Read the files and check that they can be used together; RefusedToStart names the option and the reason."""
    # Before the content is read: a file that is written meanwhile is read again at the next check.
    signature = files.signature()
    content: dict[str, bytes] = {}
    for option, path in files.named():
        try:
            with open(path, "rb") as file:
                content[path] = file.read()
        except OSError as error:
            raise RefusedToStart(f"{option}={path} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = files.lowest
    names = dict(zip(("cert", "key", "ca"), files.options, strict=True))
    key_option = f"[{files.group}] {names['key']}"
    what = f"[{files.group}] {names['cert']}={files.cert} (with {key_option})"
    with in_memory(content[files.cert]) as cert, in_memory(content[files.key]) as key, _named(what):
        context.load_cert_chain(cert, key, _no_password(key_option))
    if files.ca:
        with in_memory(content[files.ca]) as ca, _named(f"[{files.group}] {names['ca']}={files.ca}"):
            context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    option, path = next(files.named())
    return Loaded(context, content, _expiry(content[files.cert], f"{option}={path}"), signature)


@contextlib.contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """A path to this content, as OpenSSL reads certificates and keys from files only."""
    descriptor = memory_file(content)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("tls")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return descriptor


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise RefusedToStart(f"{what} cannot be used: {reason}") from None


def _no_password(option: str) -> Callable[[], str]:
    """Called for an encrypted key. Without it, OpenSSL would ask for the password on the terminal, and wait."""

    def refuse() -> str:
        raise RefusedToStart(f"{option} is encrypted: the server needs a key without a password")

    return refuse


def _expiry(pem: bytes, what: str) -> datetime.datetime:
    from cryptography import x509  # slow to import, and not needed without TLS

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:  # OpenSSL accepts more than cryptography, such as its own format TRUSTED CERTIFICATE
        raise RefusedToStart(f"{what} cannot be used: it is not a plain X.509 certificate in PEM") from None


def warn_of_expiry(files: TlsFiles, loaded: Loaded, now: datetime.datetime | None = None) -> None:
    """Log a warning if the certificate ends within 30 days."""
    left = loaded.expires - (now or datetime.datetime.now(datetime.UTC))
    if left > EXPIRY_WARNING:
        return
    option, path = next(files.named())
    until = f"{loaded.expires:%Y-%m-%d %H:%M} UTC"
    if left <= datetime.timedelta():
        LOG.error("%s=%s expired at %s: clients refuse it; renew it", option, path, until)
    else:
        LOG.warning("%s=%s expires at %s, in %d days: renew it", option, path, until, left.days)


class Watch:
    """The newest valid content of the files. `check` is cheap, and may be called often and from several threads."""

    def __init__(self, files: TlsFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.files = files
        self.loaded = load(files)
        self._seen = self._tried = self.loaded.signature
        self._checked = self._warned = clock()
        warn_of_expiry(files, self.loaded)

    def check(self, *, now: bool = False) -> bool:
        """Whether new files were loaded. They must stay unchanged for CHECK_SECONDS, unless `now`: certificate and key are
        written one after the other."""
        with self._lock:
            time_now = self._clock()
            if not now and time_now - self._checked < CHECK_SECONDS:
                return False
            self._checked = time_now
            if time_now - self._warned > DAY:
                self._warned = time_now
                warn_of_expiry(self.files, self.loaded)
            found, before = self.files.signature(), self._seen
            self._seen = found
            if found == self._tried or (found != before and not now):
                return False
            self._tried = found
            return self._load()

    def _load(self) -> bool:
        try:
            self.loaded = load(self.files)
        except RefusedToStart as error:
            LOG.error("the changed TLS files are not used, the previous ones stay in use: %s", error)
            return False
        option, path = next(self.files.named())
        LOG.info("new connections use the changed %s=%s, valid until %s", option, path, self.loaded.expires)
        warn_of_expiry(self.files, self.loaded)
        return True


class ReloadingContext(ssl.SSLContext):
    """A server's context that accepts each connection with the newest valid files; made by `reloading_context`.

    Both ways to start TLS are forwarded to a context that is never changed: `wrap_bio` (asyncio) and `wrap_socket`.
    """

    watch: Watch

    def __new__(cls, watch: Watch) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    @property
    def current(self) -> ssl.SSLContext:
        self.watch.check()
        return self.watch.loaded.context

    def wrap_bio(self, *args: Any, **how: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **how)

    def wrap_socket(self, *args: Any, **how: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **how)


def reloading_context(
    cert: str,
    key: str,
    ca: str | None = None,
    *,
    group: str,
    options: tuple[str, str, str] = ("tls_cert_file", "tls_key_file", "tls_ca_file"),
) -> ReloadingContext:
    """TLS of a listener, or RefusedToStart. `group` and `options` name the files in messages.

    The files are checked with each new connection, at most every CHECK_SECONDS. A listener that rarely has new connections
    calls `context.watch.check()` from time to time, so that files that cannot be used are logged soon.
    """
    return ReloadingContext(Watch(TlsFiles(cert, key, ca, group=group, options=options)))


# --- clients ----------------------------------------------------------------------------------------------------------


class ClientContext:
    """TLS of a client that verifies the server's certificate and name; `ca_file` is read again when it has changed."""

    def __init__(self, ca_file: str | None, option: str = "[feed] ca_file") -> None:
        """None: the system's CAs. `option` names the file in messages. RefusedToStart if the file cannot be used."""
        self._ca_file = ca_file
        self._option = option
        self._signature: tuple[int, int, int] | None = None
        self._context: ssl.SSLContext | None = None
        if ca_file:
            try:
                self()
            except OSError as error:
                raise RefusedToStart(str(error)) from None

    def __call__(self) -> ssl.SSLContext:
        """The context for a new connection; OSError if a changed file cannot be used."""
        # Not before the first connection: the system has many CAs, and a feed on a Unix socket needs none.
        if self._context is None or (self._ca_file and _signature(self._ca_file) != self._signature):
            self._context = self._load()
        return self._context

    def _load(self) -> ssl.SSLContext:
        signature = _signature(self._ca_file) if self._ca_file else None
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            raise OSError(f"{self._option}={self._ca_file} has no valid CA certificate: {reason}") from None
        except OSError as error:
            raise OSError(f"{self._option}={self._ca_file} cannot be read: {error.strerror}") from None
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        self._signature = signature
        return context

    def explain(self, error: OSError) -> str:
        """The text of a connection error; of a certificate that was not accepted with the cause and the option."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            return str(error)
        trusted = (
            f"{self._option}={self._ca_file}" if self._ca_file else f"the system's CAs, as {self._option} is not set"
        )
        return f"the server's certificate is not accepted: {error.verify_message.rstrip('.')}; it is checked with {trusted}"
