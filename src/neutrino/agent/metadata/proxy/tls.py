"""TLS to Nova: the context, and what an operator is told when it fails."""

from __future__ import annotations

import os
import ssl

from neutrino.agent.metadata.messages import Settings

# What OpenSSL complains of only where it is told to be strict, as Python does from 3.13 on.
_STRICT = range(80, 95)
_STRICT_HINT = "; with Python 3.13 and later, certificates have to follow RFC 5280, the authority's too"
_CLIENT_OPTIONS = "(nova_client_cert, nova_client_priv_key)"
_OURS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")  # in alerts about what we have shown


def make_context(settings: Settings) -> ssl.SSLContext:
    """Certificates come as text, as the process may read no files; what loads them wants one, so they are in memory."""
    context = ssl.create_default_context(cadata=settings.ca or None)
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate:
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, settings.certificate.encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    return context


def explain(error: OSError, *, first: bool = False) -> str:
    """What went wrong on a connection to Nova, with the options that it may be about.

    `first`: with TLS, before anything was answered. A server that refuses our certificate says so and closes the
    connection, and what we have sent meanwhile may have the kernel reset it before that is read.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _STRICT_HINT if error.verify_code in _STRICT else ""
        return f"Nova's certificate is not accepted: {error.verify_message} (auth_ca_cert, nova_metadata_host){hint}"
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in _OURS):
        text = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return f"Nova does not accept our certificate: {text} {_CLIENT_OPTIONS}"
    if first and isinstance(error, ConnectionError):
        return f"{error}; Nova may not accept our certificate {_CLIENT_OPTIONS}"
    return str(error)
