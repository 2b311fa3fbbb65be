"""Certificates of the authority, made and read: EC P-256, extensions of RFC 5280, random serials. No files."""

import datetime
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from neutrino.cli.errors import INVALID, CommandError

USAGES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
# Certificates are valid from some minutes before: the clocks of other machines may be behind.
EARLIER: Final = datetime.timedelta(minutes=10)
MAX_NAME: Final = 64  # characters of a common name, by RFC 5280
_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")


@dataclass(frozen=True)
class Pair:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, form, plain)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def new_authority(name: str, days: int, now: datetime.datetime, key: ec.EllipticCurvePrivateKey | None = None) -> Pair:
    """Create a self-signed certificate. With the key of an old one, certificates that it has signed stay valid."""
    key = key or new_key()
    subject = _subject(name)
    builder = _builder(subject, subject, key.public_key(), now, now + _duration(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_certificate(
    authority: Pair, name: str, addresses: Sequence[str], days: int, now: datetime.datetime, *, client: bool = False
) -> Pair:
    """Create a certificate for these addresses, signed by the authority; it ends with the authority's at the latest."""
    key = new_key()
    end = min(now + _duration(days), authority.certificate.not_valid_after_utc)
    if end <= now:
        raise CommandError(
            "the authority's certificate has expired: run `neutrino pki renew ca`, and copy ca.crt to the hosts"
        )
    identifier = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    builder = _builder(_subject(name), authority.certificate.subject, key.public_key(), now, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage("digital_signature"), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    if addresses:
        names = x509.SubjectAlternativeName([general_name(address) for address in addresses])
        builder = builder.add_extension(names, critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - EARLIER)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    if not 0 < len(name) <= MAX_NAME:
        raise CommandError(f"the name {name!r} needs 1 to {MAX_NAME} characters", INVALID)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _duration(days: int) -> datetime.timedelta:
    if not 0 < days <= 36500:
        raise CommandError(f"--days {days} is not between 1 and 36500", INVALID)
    return datetime.timedelta(days=days)


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in allowed for name in USAGES})


def general_name(address: str) -> x509.GeneralName:
    """Return an IP address or a DNS name as it is in a certificate; CommandError if it is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        pass
    labels = address.removeprefix("*.").split(".")
    numeric = labels[-1].isdigit()  # no top-level domain is a number: probably a mistyped IP address
    if numeric or len(address) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise CommandError(f"--address {address}: neither an IP address nor a DNS name", INVALID)
    return x509.DNSName(address)


# --- reading ----------------------------------------------------------------------------------------------------------


def addresses_of(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        purposes: Iterable[x509.ObjectIdentifier] = certificate.extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        ).value
    except x509.ExtensionNotFound:
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH not in purposes


def name_of(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def days_of(certificate: x509.Certificate) -> int:
    """Return the number of days for which the certificate was issued."""
    duration = certificate.not_valid_after_utc - certificate.not_valid_before_utc - EARLIER
    return max(1, round(duration.total_seconds() / 86400))


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
