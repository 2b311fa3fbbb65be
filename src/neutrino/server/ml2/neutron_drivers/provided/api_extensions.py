"""neutron.api.extensions, as extension drivers use it: directories with the API extensions that define their attributes.

A module of such a directory has a class of its own name with a capital letter, as Neutron's loader wants it.
"""

import importlib.util
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from neutron_lib.api import extensions as api

_paths: list[str] = []


def append_api_extensions_path(paths: Iterable[str]) -> None:
    _paths.extend(path for path in paths if path not in _paths)


def descriptor(alias: str) -> Any:
    """The API extension of this alias; None if no directory has it, as of extensions that are here already."""
    return next((found for found in _descriptors() if found.get_alias() == alias), None)


def _descriptors() -> Iterator[Any]:
    for path in _paths:
        for file in sorted(Path(path).glob("*.py")):
            if not file.stem.startswith("_"):
                found = getattr(_module(file), file.stem[0].upper() + file.stem[1:], None)
                if isinstance(found, type) and issubclass(found, api.ExtensionDescriptor):
                    yield found()


def _module(file: Path) -> Any:
    name = f"neutron_api_extension_{sha256(str(file).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


__all__ = ["append_api_extensions_path"]
