"""Logging by oslo.log's options."""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log


def register(conf: cfg.ConfigOpts) -> None:
    """Before the configuration is read."""
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN"])
    log.register_options(conf)


def set_up(conf: cfg.ConfigOpts) -> None:
    log.setup(conf, "neutrino")
