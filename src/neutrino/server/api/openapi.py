"""placeholder"""
from typing import Any


def document(served: Any, routes: Any, aliases: Any) -> dict[str, Any]:
    return {}
