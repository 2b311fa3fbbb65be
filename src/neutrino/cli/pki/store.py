"""Files of the authority: NAME.crt (0644) and NAME.key (0600) in one directory; nothing is overwritten unless renewed."""

import contextlib
import os
import pwd
import re
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.pki.certificates import Pair

CA: Final = "ca"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Store:
    """The directory of the authority's files."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(os.path.abspath(directory))

    def certificate_path(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key_path(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def names(self) -> list[str]:
        """Return the names of all certificates but the authority's."""
        return sorted(path.stem for path in self.directory.glob("*.crt") if path.stem != CA)

    # --- reading ---

    def certificate(self, name: str) -> x509.Certificate:
        path = self.certificate_path(name)
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except OSError as error:
            raise CommandError(self._unreadable(name, path, error)) from None
        except ValueError as error:
            raise CommandError(f"{path} is not a certificate: {error}") from None

    def authority(self) -> Pair:
        """Read the authority with its key."""
        certificate, path = self.certificate(CA), self.key_path(CA)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise CommandError(self._unreadable(CA, path, error)) from None
        except (ValueError, TypeError) as error:
            raise CommandError(f"{path} is not a key: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CommandError(f"{path} is not the key of {self.certificate_path(CA)}")
        return Pair(certificate, key)

    def _unreadable(self, name: str, path: Path, error: OSError) -> str:
        text = f"{path} cannot be read: {error.strerror}"
        if not isinstance(error, FileNotFoundError):
            return text
        if name == CA:
            return f"{text}. Create the authority with `neutrino pki init`, or give its --directory"
        return f"{text}. `neutrino pki list` lists the certificates"

    # --- writing ---

    def add(self, name: str, pair: Pair, owner: str | None = None) -> None:
        """Write a new pair, or CommandError if one of the files exists."""
        if not _NAME.fullmatch(name):
            raise CommandError(
                f"{name!r} cannot be a file name: use letters, digits, dots, hyphens and underscores", INVALID
            )
        for path in (self.certificate_path(name), self.key_path(name)):
            if path.exists():
                other = "use another --directory" if name == CA else f"`neutrino pki renew {name}` replaces it"
                raise CommandError(f"{path} exists and is not overwritten: {other}", INVALID)
        user = find_user(owner) if owner else None
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._write(self.key_path(name), pair.key_pem, 0o600, user)
            self._write(self.certificate_path(name), pair.pem, 0o644, None)
        except OSError as error:
            raise CommandError(f"{error.filename or self.directory} cannot be written: {error.strerror}") from None

    def replace(self, name: str, pair: Pair, *, key: bool = True) -> None:
        """Replace an existing pair; the key keeps its owner."""
        try:
            if key:
                status = self.key_path(name).stat()
                self._write(self.key_path(name), pair.key_pem, 0o600, (status.st_uid, status.st_gid))
            self._write(self.certificate_path(name), pair.pem, 0o644, None)
        except OSError as error:
            raise CommandError(f"{error.filename or self.directory} cannot be written: {error.strerror}") from None

    def _write(self, path: Path, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
        """Write by a rename: a server that reads the file at this moment reads the old or the new one, never a part."""
        new = path.with_name(f".{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if owner is not None and owner != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                new.unlink()
            raise


def find_user(name: str) -> tuple[int, int]:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise CommandError(f"--owner {name}: this machine has no such user", INVALID) from None
    return entry.pw_uid, entry.pw_gid
