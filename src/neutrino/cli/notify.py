"""`neutrino notify exists`: the periodic notifications for accounting that neutron-usage-audit sends.

For cron or a timer, once per period of the accounting. Objects are read and sent in pages, as a large cloud has more of
them than the queue of notifications holds; the next page waits until the broker has the last one.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from neutrino import logs
from neutrino.cli.database import database_errors, read_configuration
from neutrino.cli.errors import CommandError
from neutrino.configuration.options import Configuration
from neutrino.model.objects import Object
from neutrino.server.api.definition import Resource
from neutrino.server.context import admin_context
from neutrino.server.events.notifications import Notifier, notifier_from_conf
from neutrino.server.query import Query

AUDITED: Final = ("network", "subnet", "port", "router", "floatingip")  # in the order of neutron-usage-audit
PAGE: Final = 500
PATIENCE: Final = 60.0  # seconds for a page


def notify(args: argparse.Namespace) -> int:
    conf = read_configuration(args)
    if logs.is_configured(conf) or "log" in conf.oslo_messaging_notifications.driver:
        logs.setup(conf)
    notifier = notifier_from_conf(conf, conf.host)
    if notifier is None:
        raise CommandError(
            "notifications are off: [oslo_messaging_notifications] driver has to be messagingv2, messaging or log"
        )
    try:
        with database_errors(conf):
            sent = send_all(conf, notifier)
    finally:
        left = notifier.close(PATIENCE)
    for name, count in sent.items():
        print(f"{name}.exists: {count}")
    if left:
        raise CommandError(f"{left} notifications were not delivered: the broker did not take them")
    return 0


def send_all(conf: Configuration, notifier: Notifier) -> dict[str, int]:
    """How many were sent of each kind."""
    from neutrino.server.main import assemble

    server = assemble(conf)
    try:
        plugins = [server.core, *server.service_plugins.values()]
        return send(notifier, [pair for plugin in plugins for pair in plugin.collections])
    finally:
        server.close()


def send(notifier: Notifier, collections: Sequence[tuple[Resource, Any]]) -> dict[str, int]:
    served = {resource.name: (resource, collection) for resource, collection in collections}
    counts: dict[str, int] = {}
    for name in AUDITED:
        counts[name] = 0
        if name not in served:  # without the plugin router
            continue
        for page in _pages(*served[name]):
            for one in page:
                notifier.notify(f"{name}.exists", {name: one}, admin_context())
            counts[name] += len(page)
            if not notifier.drain(PATIENCE):
                raise CommandError(f"the broker does not take notifications: stopped at {name} {page[0]['id']}")
    return counts


def _pages(resource: Resource, collection: Any) -> Iterator[list[Object]]:
    """All objects, as the API shows them to an administrator."""
    marker: str | None = None
    while True:
        page = list(collection.index(admin_context(), Query(limit=PAGE, marker=marker, everyone=True)))
        if page:
            yield page
        if len(page) < PAGE:
            return
        marker = page[-1][resource.key]
