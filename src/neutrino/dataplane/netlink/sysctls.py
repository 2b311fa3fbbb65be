"""Settings of the kernel's network, which each namespace has of its own. Which one is meant, the calling thread says."""

from __future__ import annotations

from collections.abc import Iterable


def check_name(name: str) -> str:
    """The name, if it is a path such as net/ipv4/ip_forward; ValueError otherwise."""
    parts = name.split("/")
    if parts[0] != "net" or len(parts) < 3 or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name}: not a path such as net/ipv4/ip_forward")
    return name


def read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """Those that this kernel has."""
    found = {}
    for name in names:
        try:
            found[name] = _read(name)
        except FileNotFoundError:
            continue
    return found


def write_sysctl(name: str, value: str) -> None:
    if _read(check_name(name)) != value:
        with open(f"/proc/sys/{name}", "w") as file:
            file.write(value)


def _read(name: str) -> str:
    with open(f"/proc/sys/{name}") as file:
        return " ".join(file.read().split())
