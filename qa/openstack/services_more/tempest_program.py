"""A program for Tempest's virtual environment: runs test modules, with a line `TEST <id> <result> <reason>` for each test.

    tempest_program.py MODULE …

stestr would import every test of every plug-in first, which takes minutes.
"""

from __future__ import annotations

import sys
import time
import unittest
from typing import Any


class Result(unittest.TestResult):
    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._print(test, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._print(test, "SKIPPED", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._print(test, "FAILED", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._print(test, "FAILED", self.errors[-1][1])

    def _print(self, test: unittest.TestCase, result: str, reason: str = "") -> None:
        seconds = time.monotonic() - getattr(self, "_began", time.monotonic())
        lines = reason.strip().splitlines() or [""]
        print(f"TEST {test.id()} {result} {seconds:.0f}s {lines[-1]}", flush=True)
        if result == "FAILED":
            print(reason, file=sys.stderr, flush=True)


def main(modules: list[str]) -> int:
    loader = unittest.defaultTestLoader
    suites = [loader.loadTestsFromName(name) for name in modules]
    result = Result()
    unittest.TestSuite(suites).run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
