"""Whether the kernel can encrypt packets by itself."""

from functools import cache

from neutrino.dataplane.program import ProgramError, run_program

# A security association without traffic, in a network namespace of its own that ends with the command.
_PROBE = (
    *("unshare", "--net", "ip", "xfrm", "state", "add", "src", "192.0.2.1", "dst", "192.0.2.2"),
    *("proto", "esp", "spi", "0x100", "mode", "tunnel", "enc", "cbc(aes)", "0x" + 32 * "0"),
    *("auth-trunc", "hmac(sha256)", "0x" + 64 * "0", "128"),
)


@cache
def has_esp() -> bool:
    """Whether the kernel has ESP, or loads it. Blocking."""
    try:
        run_program(_PROBE)
    except ProgramError:
        return False
    return True
