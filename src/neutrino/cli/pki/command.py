"""`neutrino pki`: init, issue, renew, list, show."""

import argparse
import datetime
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.pki import certificates
from neutrino.cli.pki.arguments import RENEW_WITHIN_DAYS
from neutrino.cli.pki.store import CA, Store
from neutrino.model.objects import Object

FEED_PORT = 9697
ALL = "0.0.0.0"  # noqa: S104
ON_HOSTS = "/etc/neutrino/ca.crt"


def pki(args: argparse.Namespace) -> int | None:
    store = Store(args.directory)
    actions = {"init": init, "issue": issue, "renew": renew, "list": listing, "show": show}
    return actions[args.action](store, args)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _until(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_after_utc:%Y-%m-%d}"


# --- actions ----------------------------------------------------------------------------------------------------------


def init(store: Store, args: argparse.Namespace) -> None:
    authority = certificates.new_authority(args.name, args.days, _now())
    store.add(CA, authority)
    until = _until(authority.certificate)
    print(f"created {store.certificate_path(CA)}, valid until {until}: copy it to all hosts and clients")
    print(
        f"created {store.key_path(CA)}: with this file anyone can sign certificates; keep it on this machine, and a backup"
    )
    print("next: neutrino pki issue NAME --address ADDRESS")


def issue(store: Store, args: argparse.Namespace) -> None:
    if args.name == CA:
        raise CommandError("the name ca is that of the authority: choose another", INVALID)
    addresses = list(dict.fromkeys(args.addresses))
    if not addresses and not args.client:
        try:
            certificates.general_name(args.name)
        except CommandError:
            raise CommandError(f"{args.name} is not a DNS name: give the server's --address", INVALID) from None
        addresses = [args.name]
    pair = certificates.new_certificate(store.authority(), args.name, addresses, args.days, _now(), client=args.client)
    store.add(args.name, pair, args.owner)
    print(f"created {store.certificate_path(args.name)}, valid until {_until(pair.certificate)}")
    print(f"created {store.key_path(args.name)}{f', owned by {args.owner}' if args.owner else ''}")
    print(_options(store, args.name, pair.certificate))


def renew(store: Store, args: argparse.Namespace) -> int | None:
    """Replace certificates; running servers use them for new connections without a restart."""
    authority = store.authority()
    now = _now()
    soon = now + datetime.timedelta(days=args.within)
    names = args.names or [name for name in store.names() if store.certificate(name).not_valid_after_utc <= soon]
    for name in names:
        old = store.certificate(name)
        days = args.days or certificates.days_of(old)
        if name == CA:
            authority = certificates.new_authority(certificates.name_of(old), days, now, authority.key)
            store.replace(CA, authority, key=False)
            print(
                f"renewed ca, valid until {_until(authority.certificate)}: copy {store.certificate_path(CA)} to all hosts"
            )
            continue
        addresses, client = certificates.addresses_of(old), certificates.is_for_clients(old)
        pair = certificates.new_certificate(authority, certificates.name_of(old), addresses, days, now, client=client)
        store.replace(name, pair)
        print(f"renewed {name}, valid until {_until(pair.certificate)}")
    if not names:
        print(f"no certificate ends within {args.within} days")
    if CA not in names and authority.certificate.not_valid_after_utc <= soon:
        print(f"the authority itself ends at {_until(authority.certificate)}: run `neutrino pki renew ca`")
    return None


def listing(store: Store, args: argparse.Namespace) -> None:
    authority = store.certificate(CA)
    rows = [_row(store, name, authority) for name in (CA, *store.names())]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = [("NAME", "ADDRESSES", "VALID UNTIL", "DAYS", "STATE")]
    table += [
        (row["name"], ",".join(row["addresses"]) or "-", row["valid_until"][:10], str(row["days_left"]), row["state"])
        for row in rows
    ]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show(store: Store, args: argparse.Namespace) -> None:
    certificate = store.certificate(args.name)
    row = _row(store, args.name, store.certificate(CA))
    row |= {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "serial": f"{certificate.serial_number:x}",
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(":"),
        "purpose": "authority"
        if args.name == CA
        else "client"
        if certificates.is_for_clients(certificate)
        else "server",
        "certificate": str(store.certificate_path(args.name)),
        "key": str(store.key_path(args.name)),
    }
    if args.json:
        print(json.dumps(row, indent=2))
        return
    for key, value in row.items():
        print(f"{key.replace('_', ' '):12} {', '.join(value) if isinstance(value, list) else value}")
    print(_options(store, args.name, certificate))


def _row(store: Store, name: str, authority: x509.Certificate) -> Object:
    certificate = store.certificate(name)
    left = certificate.not_valid_after_utc - _now()
    if not certificates.is_signed_by(certificate, authority):
        state = "signed by another authority"
    elif left <= datetime.timedelta():
        state = "expired"
    else:
        state = "ends soon" if left <= datetime.timedelta(days=RENEW_WITHIN_DAYS) else "valid"
    return {
        "name": name,
        "addresses": certificates.addresses_of(certificate),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
        "days_left": round(left / datetime.timedelta(days=1)),
        "state": state,
    }


# --- what to configure ------------------------------------------------------------------------------------------------


def _is_ip(address: str) -> bool:
    return isinstance(certificates.general_name(address), x509.IPAddress)


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _options(store: Store, name: str, certificate: x509.Certificate) -> str:
    """Return the lines for server.conf and agent.conf."""
    cert, key, ca = store.certificate_path(name), store.key_path(name), store.certificate_path(CA)
    if name == CA:
        return f"""
in agent.conf of each host, after copying {ca} to {ON_HOSTS} there:
  [feed]
  ca_file = {ON_HOSTS}
for clients:
  export OS_CACERT={ca}"""
    if certificates.is_for_clients(certificate):
        return f"""
for clients, with [ssl] ca_file = {ca} in server.conf:
  export OS_CERT={cert} OS_KEY={key} OS_CACERT={ca}"""
    addresses = certificates.addresses_of(certificate)
    host = _in_url(next(iter(addresses), name))
    listening = next((_in_url(address) for address in addresses if _is_ip(address)), ALL)
    return f"""
in server.conf, for the API, the feed and the metrics (each is optional):
  [DEFAULT]
  use_ssl = true
  [ssl]
  cert_file = {cert}
  key_file = {key}
  [feed]
  bind = {listening}:{FEED_PORT}
  tls_cert_file = {cert}
  tls_key_file = {key}
  [metrics]
  tls_cert_file = {cert}
  tls_key_file = {key}
in agent.conf of each host, after copying {ca} to {ON_HOSTS} there:
  [feed]
  server = wss://{host}:{FEED_PORT}
  ca_file = {ON_HOSTS}
for clients:
  export OS_CACERT={ca}"""
