"""A rate limit for the Networking API, as a filter of a site: an example, tested with neutrino.

    [DEFAULT]
    api_filters = rate_limit
    [filter:rate_limit]
    paste.filter_factory = rate_limit:filter_factory
    per_second = 20
    burst = 100

Each project may send `burst` requests at once and `per_second` on average; more are answered with 429 and Retry-After. Each
worker of the API counts for itself, so divide the limit by their number. Services, such as Nova, should not be limited.
"""

import json
import math
import threading
import time
from collections import OrderedDict

PROJECTS = 10_000  # the ones that were seen last


class RateLimit:
    def __init__(self, app, per_second=20.0, burst=100.0, exempt_roles=("service", "admin"), clock=time.monotonic):
        self._app, self._rate, self._burst = app, float(per_second), float(burst)
        self._exempt, self._clock = frozenset(exempt_roles), clock
        self._lock = threading.Lock()
        self._left = OrderedDict()  # project: (requests that it may send, since when)

    def __call__(self, environ, start_response):
        roles = {role.strip().lower() for role in environ.get("HTTP_X_ROLES", "").split(",")}
        project = environ.get("HTTP_X_PROJECT_ID")  # set by authentication, which removes what clients send
        if project is None or roles & self._exempt:
            return self._app(environ, start_response)
        seconds = self._take(project)
        if seconds <= 0:
            return self._app(environ, start_response)
        error = {"type": "TooManyRequests", "message": "Too many requests of this project.", "detail": ""}
        body = json.dumps({"NeutronError": error}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("429 Too Many Requests", [*headers, ("Retry-After", str(math.ceil(seconds)))])
        return [body]

    def _take(self, project):
        """Seconds until the project may send its next request; 0: now, and it counts."""
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(project, (self._burst, now))
            left = min(left + (now - since) * self._rate, self._burst)
            allowed = left >= 1
            self._left[project] = (left - 1 if allowed else left, now)
            if len(self._left) > PROJECTS:
                self._left.popitem(last=False)
            return 0 if allowed else (1 - left) / self._rate


def filter_factory(global_conf, per_second="20", burst="100", exempt_roles="service,admin", **_):
    roles = [role.strip().lower() for role in exempt_roles.split(",") if role.strip()]
    return lambda app: RateLimit(app, per_second, burst, roles)
