"""The file with a host's credential, read again at each attempt to connect: a rotated credential needs no restart."""

import logging
from pathlib import Path

LOG = logging.getLogger(__name__)
MAX_BYTES = 4096


class CredentialFile:
    """While the file cannot be used, as between the two steps of replacing it, the last credential stays in use."""

    def __init__(self, path: str) -> None:
        """OSError or ValueError if the file cannot be used; the text is the reason, without the content."""
        self.path = path
        self._last = _read(path)
        self._logged = ""

    def __str__(self) -> str:
        return f"[feed] credential_file={self.path}"

    def read(self) -> str:
        try:
            found, reason = _read(self.path), ""
        except (OSError, ValueError) as error:
            found, reason = self._last, reason_of(error)
        if found != self._last:
            LOG.info("%s has changed: the new credential is used", self)
        if reason and reason != self._logged:
            LOG.warning("%s cannot be used, the last credential stays in use: %s", self, reason)
        self._last, self._logged = found, reason
        return found


def reason_of(error: OSError | ValueError) -> str:
    return str(error) if isinstance(error, ValueError) else error.strerror or str(error)


def _read(path: str) -> str:
    with Path(path).open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    text = data.decode("ascii", errors="replace").strip()
    if not text:
        raise ValueError("it is empty")
    # It becomes a header of a request.
    if len(data) > MAX_BYTES or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("its content is no credential: one word of ASCII, as `neutrino host add` prints it")
    return text
