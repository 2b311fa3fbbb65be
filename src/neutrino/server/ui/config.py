"""Options of the topology page."""

from oslo_config import cfg

GROUP = "ui"
OPTIONS = [
    cfg.BoolOpt("enabled", default=True, help="Serve the topology page at /ui/."),
    cfg.IntOpt(
        "login_attempts",
        default=10,
        min=1,
        help="Failed logins that an address may make through the page within login_period, in each worker. Behind a proxy "
        "that is not one of [oslo_middleware] trusted_proxies, all users share one address: that of the proxy.",
    ),
    cfg.IntOpt("login_period", default=60, min=1, help="Seconds for which a failed login counts."),
]
