"""The command line of benchmarks: figures are printed as tables, and kept in a file from which they can be shown again."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab.errors import LabError
from qa.bench.signals import unwind_if_terminated

Raw = Mapping[str, Any]


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, help="write the raw figures to this file")
    made.add_argument("--show", type=Path, metavar="FILE", help="only print the tables of figures written earlier")
    return made


def add_check(made: argparse.ArgumentParser) -> None:
    made.add_argument("--check", action="store_true", help="fail where a figure wanted is missed")


def run(
    options: argparse.Namespace,
    measure: Callable[[], Raw],
    document: Callable[[Any], str],
    missed: Callable[[Any], Sequence[str]] = lambda raw: (),
    *,
    check: bool = False,
) -> int:
    """The exit status. `check`: whether a figure that is missed is a failure."""
    if options.show is not None:
        print(document(json.loads(options.show.read_text(encoding="utf-8"))), end="")
        return 0
    unwind_if_terminated()
    try:
        raw = measure()
    except (LabError, RuntimeError, TimeoutError) as error:
        print(f"the measurement failed: {error}", file=sys.stderr)
        return 1
    print(document(raw), end="")
    if options.out is not None:
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    lines = missed(raw)
    for line in lines:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if check and lines else 0
