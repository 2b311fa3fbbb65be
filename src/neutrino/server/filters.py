"""Filters of the site: WSGI middleware of other packages in front of the application, in the order of `api_filters`.

A filter is written for PasteDeploy, as for Neutron: a factory that takes a dictionary of the site's configuration and the
filter's options, and gives a function from application to application. It is found by the entry point of its name, or by
`paste.filter_factory` in its section `[filter:NAME]`, which has its options too, as in api-paste.ini.

A pipeline of Neutron's api-paste.ini is read as well (`api_paste_config`): what it names and the server has anyway is left
out, what is known is used, and everything else is refused by name.
"""

import configparser
import contextlib
import itertools
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from oslo_config import cfg

from neutrino import entry_points
from neutrino.configuration.options import Configuration
from neutrino.errors import RefusedToStart

LOG = logging.getLogger(__name__)
Factory = Callable[..., Callable[[WSGIApplication], WSGIApplication]]
AUTHENTICATION: Final = "authtoken"  # in the list: where the token is checked; by default before all filters
GROUPS: Final = ("neutrino.api_filters", "paste.filter_factory")
SECTION: Final = "filter:"
FACTORY: Final = "paste.filter_factory"
# Factories of Neutron's pipelines for what the server does itself, without the part after the colon.
INCLUDED: Final = frozenset(
    {
        *("oslo_middleware", "oslo_middleware.request_id", "oslo_middleware.catch_errors", "oslo_middleware.cors"),
        *("oslo_middleware.http_proxy_to_wsgi", "oslo_middleware.sizelimit", "oslo_middleware.healthcheck"),
        *("osprofiler.web", "neutron.auth", "neutron.api.extensions", "neutron.api.versions"),
    }
)
_AUTHENTICATES: Final = "keystonemiddleware.auth_token"
KNOWN: Final = frozenset({"keystonemiddleware.audit"})


@dataclass(frozen=True)
class Filter:
    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Filters:
    """The outermost first."""

    outside: Sequence[Filter] = ()  # of authentication: they see every request, and not who sends it
    inside: Sequence[Filter] = ()


def read_filters(conf: Configuration) -> Filters:
    """What the configuration wants; RefusedToStart names the filter or the file."""
    if conf.api_filters:
        found = [Filter(name, _options(conf, name)) for name in conf.api_filters]
    else:
        found = _of_paste(conf)
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RefusedToStart(f"[DEFAULT] api_filters: {', '.join(twice)} more than once")
    if AUTHENTICATION not in names:
        return Filters(inside=found)
    place = names.index(AUTHENTICATION)
    return Filters(found[:place], found[place + 1 :])


def applied(app: WSGIApplication, filters: Sequence[Filter]) -> WSGIApplication:
    for one in reversed(filters):
        app = _guarded(one.name, _built(one, app))
    return app


def _built(one: Filter, app: WSGIApplication) -> WSGIApplication:
    with _without_green_threads():
        factory = _factory(one)
    options = {name: value for name, value in one.options.items() if name != FACTORY}
    try:
        return factory({}, **options)(app)
    except Exception as error:  # of another package
        raise RefusedToStart(f"[DEFAULT] api_filters: {one.name} cannot be built: {error}") from error


@contextlib.contextmanager
def _without_green_threads() -> Iterator[None]:
    """Keep filters such as audit from loading eventlet, oslo.messaging's default, which needs green threads everywhere.

    With `oslo.service[threading]` oslo.messaging uses threads. Else it is not there for the filter, which then does
    without: audit writes to the log.
    """
    if find_spec("oslo_service") is None or "oslo_messaging" in sys.modules:
        yield
    elif find_spec("cotyledon") is not None:
        from oslo_service import backend

        backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
        yield
    else:
        sys.modules["oslo_messaging"] = None  # type: ignore[assignment]  # its import fails, as if it were not installed
        try:
            yield
        finally:
            del sys.modules["oslo_messaging"]


def _factory(one: Filter) -> Factory:
    path = one.options.get(FACTORY)
    try:
        if path:
            factory: Factory = pkgutil.resolve_name(path)
            return factory
        for group in GROUPS:
            offers = {entry.value: entry for entry in entry_points.of_group(group) if entry.name == one.name}
            if len(offers) > 1:
                raise RefusedToStart(
                    f"[DEFAULT] api_filters: several packages offer {one.name}: {', '.join(sorted(offers))}; "
                    f"name one in [{SECTION}{one.name}] {FACTORY}"
                )
            for entry in offers.values():
                factory = entry.load()
                return factory
    except (ImportError, AttributeError, ValueError) as error:
        raise RefusedToStart(f"[DEFAULT] api_filters: {one.name} cannot be loaded: {error}") from error
    raise RefusedToStart(
        f"[DEFAULT] api_filters: no installed package offers {one.name}; its factory can be given as "
        f"[{SECTION}{one.name}] {FACTORY}"
    )


def _guarded(name: str, app: WSGIApplication) -> WSGIApplication:
    """A filter that raises is named in the log, and the client gets an answer in the form of the API's."""

    def call(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            answer = app(environ, start_response)
            # A generator has not done anything yet, and fails when it is read.
            return _begun(answer) if isinstance(answer, Iterator) else answer
        except Exception:
            from neutrino.server.middleware import answer_error

            LOG.exception("the filter %s failed", name)
            message = "A filter of this site failed."
            return answer_error(start_response, "500 Internal Server Error", "HTTPInternalServerError", message)

    return call


def _begun(answer: Iterator[bytes]) -> Iterable[bytes]:
    """The same answer, of which the first part was computed."""
    try:
        first = next(answer)
    except StopIteration:
        return []
    return _Chained(first, answer)


class _Chained:
    """Closes the rest as WSGI wants it."""

    def __init__(self, first: bytes, rest: Iterator[bytes]) -> None:
        self._parts = itertools.chain((first,), rest)
        self._rest = rest

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        close = getattr(self._rest, "close", None)
        if close is not None:
            close()


# --- configuration ----------------------------------------------------------------------------------------------------


def _options(conf: Configuration, name: str) -> dict[str, str]:
    """The options of a filter, which become options of the program, so that none of them is reported as unknown."""
    section = f"{SECTION}{name}"
    given = {option: texts[-1] for (group, option), texts in conf.given.items() if group == section}
    conf.register_opts([cfg.StrOpt(option) for option in given], group=section)
    return given


def _of_paste(conf: Configuration) -> list[Filter]:
    """The filters of the pipeline in Neutron's file that are not part of the server anyway."""
    path = conf.api_paste_config
    if not path or (not os.path.isabs(path) and not os.path.exists(path)):
        return []  # Neutron's default is a name, and its own file has nothing that the server lacks
    parser = configparser.RawConfigParser(delimiters=("=", ":"), comment_prefixes=("#", ";"), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, ValueError, configparser.Error) as error:
        raise RefusedToStart(f"[DEFAULT] api_paste_config={path} cannot be read: {error}") from None
    sections = [parser[name] for name in parser.sections() if name.startswith(("composite:", "pipeline:"))]
    lines = [text for one in sections if (text := one.get(conf.auth_strategy) or one.get("pipeline"))]
    wanted = list(dict.fromkeys(name for line in lines for name in line.split()))
    found, refused = [], []
    for name in wanted:
        if not parser.has_section(SECTION + name):
            continue  # an application
        options = dict(parser[SECTION + name])
        module = options.get(FACTORY, "").partition(":")[0]
        if module == _AUTHENTICATES:
            found.append(Filter(AUTHENTICATION))
        elif module in KNOWN:
            found.append(Filter(name, options))
        elif module not in INCLUDED:
            refused.append(f"{name} ({options.get(FACTORY) or options.get('use', 'without a factory')})")
    if refused:
        raise RefusedToStart(
            f"[DEFAULT] api_paste_config={path}: filters that are not known: {', '.join(refused)}; name those that the "
            "server shall have in [DEFAULT] api_filters"
        )
    return found
