"""Notifications in the log, as oslo.messaging's driver `log`: one line of JSON each, without the caller and secrets.

The logger is `oslo.messaging.notification.` and the type of the event, so that `[DEFAULT] default_log_levels` or a file of
`log_config_append` sends them elsewhere.
"""

import json
import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from oslo_utils import strutils

from neutrino.server.context import Context
from neutrino.server.events.envelope import plain, render_event

LOG = logging.getLogger(__name__)
LOGGER = "oslo.messaging.notification"  # under its name there, which configurations of logging refer to


class LogNotifier:
    def __init__(self, publisher_id: str) -> None:
        self._publisher_id = publisher_id

    def notify(self, event_type: str, payload: Mapping[str, object], context: Context) -> None:
        self.publish(event_type, payload, self._publisher_id)

    def publish(self, event_type: str, payload: Mapping[str, object], publisher_id: str) -> None:
        event = render_event(
            event_type, payload, publisher_id=publisher_id, message_id=str(uuid.uuid4()), now=datetime.now(UTC)
        )
        try:
            as_sent = json.loads(json.dumps(event, default=plain))
        except (TypeError, ValueError):
            LOG.exception("notification %s cannot be rendered and is not logged", event_type)
            return
        line = json.dumps(strutils.mask_dict_password(as_sent))
        logging.getLogger(f"{LOGGER}.{event_type}").info("%s", line)

    def drain(self, timeout: float) -> bool:
        return True

    def close(self, timeout: float = 5.0) -> int:
        return 0
