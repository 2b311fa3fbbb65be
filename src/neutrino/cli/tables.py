"""Text tables for terminals. Pure."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]


def duration(seconds: float) -> str:
    """A number of seconds for people: 8 s, 3 min, 5 h, 2 d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def printable(text: str) -> str:
    """Text of the network in one line, without control characters, which could write anywhere on a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
