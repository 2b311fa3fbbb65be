"""The network log of a host: packets that security groups or firewall groups accept or drop, as lines."""

import logging
import os
from logging.handlers import WatchedFileHandler

LOG = logging.getLogger(__name__)
NETWORK_LOG = "neutrino.network_log"  # the logger
_MODE = 0o640  # what instances talk about is not for everybody


def network_log(path: str | None) -> logging.Logger:
    """The logger of packets: of a file, which may be rotated, or else a part of the agent's own log."""
    output = logging.getLogger(NETWORK_LOG)
    output.setLevel(logging.INFO)
    if path and not any(isinstance(each, WatchedFileHandler) for each in output.handlers):  # of another role
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE))
            handler = WatchedFileHandler(path)
        except OSError as error:
            LOG.error("[network_log] local_output_log_base: %s; packets are logged here", error)
            return output
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        output.addHandler(handler)
        output.propagate = False
    return output
