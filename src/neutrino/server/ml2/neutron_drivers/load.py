"""Loads drivers written for Neutron, with Neutron's modules, options and plugins around them. Needs neutron-lib."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import TypeVar

from neutron_lib.plugins import constants, directory
from oslo_config import cfg
from oslo_service import backend

from neutrino.configuration.options import DEFAULT, Configuration, Option
from neutrino.errors import RefusedToStart
from neutrino.server.ml2.neutron_drivers import callbacks, provided, runtime
from neutrino.server.ml2.neutron_drivers.adapter import Adapted
from neutrino.server.ml2.neutron_drivers.extension_adapter import AdaptedExtension
from neutrino.server.ml2.neutron_drivers.plugin import CorePlugin

PLUGIN = CorePlugin()  # the directory keeps a weak reference
D = TypeVar("D")
RETRY_SECONDS = 30.0
_of_libraries = set[Option]()  # options that were there before the first driver was imported


def adapted(conf: cfg.ConfigOpts, point: metadata.EntryPoint) -> Adapted:
    """A mechanism driver."""
    return _loaded(conf, "mechanism_drivers", point, Adapted)


def adapted_extension(conf: cfg.ConfigOpts, point: metadata.EntryPoint) -> AdaptedExtension:
    return _loaded(conf, "extension_drivers", point, AdaptedExtension)


def _loaded(conf: cfg.ConfigOpts, kind: str, point: metadata.EntryPoint, adapter: Callable[..., D]) -> D:
    provided.install()
    callbacks.watch_subscriptions()
    directory.add_plugin(constants.CORE, PLUGIN)
    # Not eventlet's, which is oslo.service's default, and would need green threads in the whole server.
    backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
    read_options(conf)
    _of_libraries.update(_options() if not _of_libraries else ())
    try:
        driver_class = point.load()
    except Exception as error:
        raise RefusedToStart(
            f"[ml2] {kind}: {point.name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    made = adapter(conf, point.name, driver_class)
    if isinstance(conf, Configuration):
        conf.registered |= set(_options()) - _of_libraries
        # Drivers that configure several devices read a section of each from the files themselves.
        conf.registered |= {option for option in conf.given if ":" in option[0]}
    return made


def read_options(conf: cfg.ConfigOpts) -> None:
    """Drivers register their options in oslo.config's global object: it reads the server's files."""
    files = [str(file) for file in conf.config_file]
    cfg.CONF(args=[], project="neutron", default_config_files=files, default_config_dirs=[])
    from neutrino.server.config import CORE

    for group, options in ((None, CORE[None]), ("ml2", CORE["ml2"])):
        for option in options:
            try:
                cfg.CONF.register_opt(option, group=group)
            except cfg.DuplicateOptError:  # a library's own option of this name
                continue


def _options() -> Iterator[tuple[str, str]]:
    """All options of the global object, by section and name."""
    for name in cfg.CONF:
        try:
            value = cfg.CONF[name]
        except cfg.Error:  # a required option without a value
            yield DEFAULT, name
            continue
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            yield from ((name, option) for option in value)
        else:
            yield DEFAULT, name


def begin(server: runtime.Runtime) -> Callable[[], None]:
    """Attach a server to its drivers; returns what each of its processes calls when it starts."""
    drivers = [driver for driver in server.mechanisms.drivers.values() if isinstance(driver, Adapted)]
    extensions = [driver for driver in server.networks.extensions.drivers if isinstance(driver, AdaptedExtension)]
    for driver in drivers:
        driver.attach(server)
    for extension in extensions:
        extension.attach(server)
    if drivers:  # callbacks are of mechanism drivers
        drivers[0].publish_callbacks()
        server.operations.listeners.append(drivers[0].trunk_changed)
    runtime.begin(server)

    def start() -> None:
        runtime.begin(server)
        failed = [driver for driver in drivers if driver.begin()]
        callbacks.process_begins()
        if failed:
            about = server, failed
            threading.Thread(target=_keep_trying, args=about, daemon=True, name="drivers").start()

    return start


def _keep_trying(server: runtime.Runtime, drivers: Sequence[Adapted]) -> None:
    """Until all are initialised, so that what they miss ends without a request that needs them."""
    while drivers and runtime.is_current(server):
        time.sleep(RETRY_SECONDS)
        drivers = [driver for driver in drivers if driver.begin()]
