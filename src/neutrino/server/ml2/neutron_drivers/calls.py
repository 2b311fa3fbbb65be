"""Calls of drivers written for Neutron: errors name driver, method and object, and a call that hangs is given up."""

import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from neutrino.server import errors
from neutrino.server.ml2.neutron_drivers.runtime import CALL, Call

LOG = logging.getLogger(__name__)
MAX_GIVEN_UP = 50  # threads of a driver: requests of clients must not start one each while its equipment is away


class Hanging(Exception):
    """A driver's method has not returned in time. Its thread goes on: Python cannot end it."""


@dataclass
class _Result:
    value: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    is_given_up: bool = False


class _GivenUp:
    """How many threads of each driver were given up and have not returned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[str] = Counter()

    def number(self, driver: str) -> int:
        return self._numbers[driver]

    def add(self, driver: str, result: _Result) -> bool:
        """False: it has returned just now."""
        with self._lock:
            if not result.done.is_set():
                result.is_given_up = True
                self._numbers[driver] += 1
            return result.is_given_up

    def returned(self, driver: str, result: _Result) -> None:
        with self._lock:
            result.done.set()
            self._numbers[driver] -= result.is_given_up


_GIVEN_UP = _GivenUp()


def run(call: Call, method: Callable[..., Any], *args: Any) -> Any:
    """In this thread."""
    token = CALL.set(call)
    try:
        return method(*args)
    except errors.ApiError:
        raise
    except Exception as error:
        if call.tx is not None:  # of the others, those who called them log the failure
            LOG.exception("%s failed", call)
        raise (call.error_of or failure)(call, error) from error
    finally:
        CALL.reset(token)


def failure(call: Call, error: Exception | None = None) -> errors.MechanismDriverError:
    return errors.MechanismDriverError(method=f"{call.method} of {call.object_id}", drivers=call.driver)


def run_bounded(call: Call, seconds: float, method: Callable[..., Any], *args: Any) -> Any:
    """In a thread of its own, for at most so many seconds; 0: in this thread, for as long as it takes.

    The thread of a precommit, which holds the transaction, only waits meanwhile. When it goes on, the driver cannot use
    the transaction any more.
    """
    if not seconds:
        return run(call, method, *args)
    result = _Result()

    def work() -> None:
        try:
            result.value = run(call, method, *args)
        except BaseException as error:
            result.error = error
        finally:
            _GIVEN_UP.returned(call.driver, result)

    if (number := _GIVEN_UP.number(call.driver)) >= MAX_GIVEN_UP:
        raise _late(call, f"{call} is not made: {number} calls of the driver have not returned")
    context = contextvars.copy_context()  # with the request's id, for the log
    threading.Thread(target=context.run, args=(work,), daemon=True, name=f"driver {call.driver}").start()
    if not result.done.wait(seconds) and _GIVEN_UP.add(call.driver, result):
        call.fence.close()
        LOG.error("%s has not returned after %s s ([ml2] driver_timeout): given up", call, seconds)
        raise _late(call, f"{call} has not returned after {seconds:g} s ([ml2] driver_timeout)")
    if result.error is not None:
        raise result.error
    return result.value


def _late(call: Call, text: str) -> Exception:
    late = Hanging(text)
    if call.tx is None:
        return late
    refused = failure(call)
    refused.__cause__ = late
    return refused
