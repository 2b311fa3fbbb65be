"""Checks of files and disks: state directories, secrets, certificates, free space. Of servers and hosts."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from oslo_config import cfg

from neutrino.cli.doctor.accounts import READ, USE, Account, program_account
from neutrino.cli.doctor.subject import SERVER, Subject
from neutrino.configuration.options import Configuration
from neutrino.diagnosis import machine_problems
from neutrino.diagnosis.problems import Finding

DAYS: Final = 30  # before the end of a certificate
LOW_SHARE, FULL_SHARE = 0.05, 0.01  # of a file system
LOW_BYTES, FULL_BYTES = 500 * 2**20, 20 * 2**20
SECRET_OPTIONS: Final = frozenset(
    {("database", "connection"), ("DEFAULT", "metadata_proxy_shared_secret"), ("keystone_authtoken", "password")}
    | {("nova", "password"), ("DEFAULT", "transport_url"), ("oslo_messaging_notifications", "transport_url")}
)


def files(subject: Subject) -> Iterator[Finding]:
    """Check the state directory, and files whose content is secret."""
    account = program_account(subject)
    yield from _state(subject.state_path, account)
    for option, path in secret_files(subject):
        reason = _unreadable(path, account)
        if reason:
            yield machine_problems.FILE_UNREADABLE(f"{option} = {path}: {reason}")
        elif os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH):
            yield machine_problems.SECRET_READABLE(f"{option} = {path} can be accessed by every user", path=path)


def secret_files(subject: Subject) -> list[tuple[str, str]]:
    conf = subject.conf
    files = [("[metrics] tls_key_file", conf.metrics.tls_key_file)]
    if subject.role == SERVER:
        files += [("[ssl] key_file", conf.ssl.key_file if conf.use_ssl else "")]
        files += [("[feed] tls_key_file", conf.feed.tls_key_file)]
        database = sqlite_file(conf)
        files += [("the database", database)] if database and os.path.exists(database) else []
    else:
        files += [("[feed] credential_file", conf.feed.credential_file)]
        files += [("nova_client_priv_key", conf.get("nova_client_priv_key"))]
    files += [("configuration file", path) for path in subject.files if _has_secret(path)]
    return [(option, str(path)) for option, path in files if path]


def _has_secret(path: str) -> bool:
    conf = Configuration()
    try:
        conf([], default_config_files=[path], default_config_dirs=[])
    except cfg.Error:
        return False
    # A database without a password, such as an SQLite file, is no secret.
    return any(
        option in SECRET_OPTIONS and (option[1] != "connection" or "@" in values[-1])
        for option, values in conf.given.items()
    )


def _unreadable(path: str, account: Account | None) -> str:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        return error.strerror or str(error)
    return f"user {account.name} cannot read it" if account is not None and not account.may(path, READ) else ""


def _state(path: Path, account: Account | None) -> Iterator[Finding]:
    if not path.exists():
        parent = next((parent for parent in path.parents if parent.exists()), Path("/"))
        if not os.access(parent, os.W_OK):
            yield machine_problems.STATE_UNUSABLE(
                f"state_path = {path} does not exist and cannot be created in {parent}"
            )
    elif not path.is_dir():
        yield machine_problems.STATE_UNUSABLE(f"state_path = {path} is not a directory")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield machine_problems.STATE_UNUSABLE(f"state_path = {path} cannot be written by this user")
    elif account is not None and not account.may(str(path), USE):
        yield machine_problems.STATE_UNUSABLE(f"state_path = {path} cannot be used by its owner, user {account.name}")


# --- disk space -------------------------------------------------------------------------------------------------------


def disk(subject: Subject) -> Iterator[Finding]:
    conf, seen = subject.conf, set()
    paths = [("state_path", str(subject.state_path)), ("the log", conf.get("log_dir") or conf.get("log_file"))]
    if subject.role == SERVER and (database := sqlite_file(conf)):
        paths.append(("the database", os.path.dirname(database)))
    for what, path in paths:
        place = _existing(path) if path else None
        if place is None or (device := os.stat(place).st_dev) in seen:
            continue
        seen.add(device)
        size, free = subject.machine.free(str(place))
        text = f"{what} in {path}: {free / 2**20:.0f} MiB of {size / 2**30:.1f} GiB are free"
        if free < min(FULL_BYTES, size * FULL_SHARE):
            yield machine_problems.DISK_FULL(text)
        elif free < min(LOW_BYTES, size * LOW_SHARE):
            yield machine_problems.DISK_LOW(text)


def _existing(path: str) -> Path | None:
    """Return the path, or the closest directory above it that exists."""
    full = Path(path).absolute()
    return next((place for place in (full, *full.parents) if place.exists()), None)


def sqlite_file(conf: Configuration) -> str:
    """Return the database's file; empty for a database server."""
    import sqlalchemy as sa

    from neutrino.server.config import database_url

    url = sa.make_url(database_url(conf))
    return str(url.database or "") if url.get_backend_name() == "sqlite" else ""


# --- certificates -----------------------------------------------------------------------------------------------------


def certificates(subject: Subject) -> Iterator[Finding]:
    now = datetime.fromtimestamp(subject.machine.now(), UTC)
    account = program_account(subject)
    for option, path, key in certificate_files(subject):
        if account is not None and os.path.exists(path) and not account.may(path, READ):
            yield machine_problems.CERTIFICATE_UNUSABLE(f"{option} = {path}: user {account.name} cannot read it")
            continue
        yield from examine_certificate(option, path, key, now)


def certificate_files(subject: Subject) -> list[tuple[str, str, str]]:
    """Return the option, the path, and the path of the key if it has one, of each certificate."""
    conf = subject.conf
    metrics = conf.metrics
    files = [("[metrics] tls_cert_file", metrics.tls_cert_file, metrics.tls_key_file)]
    if subject.role == SERVER:
        if conf.use_ssl:
            files += [
                ("[ssl] cert_file", conf.ssl.cert_file, conf.ssl.key_file),
                ("[ssl] ca_file", conf.ssl.ca_file, ""),
            ]
        # The key may be in the file of the certificate.
        certificate = conf.feed.tls_cert_file
        files += [("[feed] tls_cert_file", certificate, conf.feed.tls_key_file or certificate)]
        files += [("[oslo_messaging_rabbit] ssl_ca_file", conf.oslo_messaging_rabbit.ssl_ca_file, "")]
        files += [(f"[{group}] cafile", _option(conf, group, "cafile"), "") for group in ("keystone_authtoken", "nova")]
    else:
        files += [("[feed] ca_file", conf.feed.ca_file, "")]
        ovs = conf.ovs
        if ovs.ovsdb_connection.startswith("ssl:"):
            files += [("[ovs] ssl_cert_file", ovs.ssl_cert_file, ovs.ssl_key_file)]
            files += [("[ovs] ssl_ca_cert_file", ovs.ssl_ca_cert_file, "")]
        files += [("nova_client_cert", conf.get("nova_client_cert"), conf.get("nova_client_priv_key"))]
        files += [("auth_ca_cert", conf.get("auth_ca_cert"), "")]
    return [(option, str(path), str(key or "")) for option, path, key in files if path]


def _option(conf: Configuration, group: str, name: str) -> str:
    """Return a library's option as the files have it; libraries register theirs late."""
    return conf.given.get((group, name), [""])[-1]


def examine_certificate(option: str, path: str, key: str, now: datetime) -> Iterator[Finding]:
    import ssl

    from cryptography import x509

    shown = f"{option} = {path}"
    try:
        chain = x509.load_pem_x509_certificates(Path(path).read_bytes())
        if key:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, key, lambda: "")
    except OSError as error:  # an SSLError too
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        yield machine_problems.CERTIFICATE_UNUSABLE(f"{shown}: {str(reason).replace('_', ' ').lower()}")
        return
    except ValueError as error:
        yield machine_problems.CERTIFICATE_UNUSABLE(f"{shown}: {error}")
        return
    for certificate in chain:
        name = certificate.subject.rfc4514_string() or "without a name"
        end, begin = certificate.not_valid_after_utc, certificate.not_valid_before_utc
        if end <= now:
            yield machine_problems.CERTIFICATE_EXPIRED(f"{shown}: {name} expired on {end:%Y-%m-%d %H:%M} UTC")
        elif begin > now:
            yield machine_problems.CERTIFICATE_EARLY(f"{shown}: {name} is valid from {begin:%Y-%m-%d %H:%M} UTC on")
        else:
            yield from expires_soon(f"{shown}: {name}", end, now)


def expires_soon(shown: str, end: datetime, now: datetime) -> Iterator[Finding]:
    """Warn if the certificate ends within DAYS."""
    left = (end - now).total_seconds() / 86400
    if 0 < left < DAYS:
        yield machine_problems.CERTIFICATE_EXPIRES(f"{shown} expires on {end:%Y-%m-%d %H:%M} UTC, in {int(left)} days")
