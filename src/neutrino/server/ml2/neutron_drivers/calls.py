"""Calls of drivers written for Neutron: errors name driver, method and object, and a call that hangs is given up."""

import contextvars
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from neutrino.server import errors
from neutrino.server.ml2.neutron_drivers.runtime import CALL, Call

LOG = logging.getLogger(__name__)


class Hanging(Exception):
    """A driver's method has not returned in time. Its thread goes on: Python cannot end it."""


@dataclass
class _Result:
    value: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


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
            result.done.set()

    context = contextvars.copy_context()  # with the request's id, for the log
    threading.Thread(target=context.run, args=(work,), daemon=True, name=f"driver {call.driver}").start()
    if not result.done.wait(seconds):
        call.fence.close()
        LOG.error("%s has not returned after %s s ([ml2] driver_timeout): given up", call, seconds)
        late = Hanging(f"{call} has not returned after {seconds:g} s ([ml2] driver_timeout)")
        raise late if call.tx is None else failure(call) from late
    if result.error is not None:
        raise result.error
    return result.value
