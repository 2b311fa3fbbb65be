"""Logging with the options of oslo.log."""

from oslo_config import cfg
from oslo_log import log


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options; before the configuration files are read."""
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN"])
    log.register_options(conf)


def set_up(conf: cfg.ConfigOpts) -> None:
    log.setup(conf, "neutrino")
