"""Code of the documentation's pages, to be run by tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"


def python_of(page: str) -> dict[str, Any]:
    """The names that the Python blocks of a page define."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} has no Python block"
    names: dict[str, Any] = {"__name__": page}
    exec(compile("\n".join(blocks), page, "exec"), names)
    return names
