"""The process of the BFD speaker, from its start to SIGTERM. The agent's supervisor runs it; it outlives the agent."""

import gc
import logging
import resource
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from neutrino.agent.l3.services.bfd.speaker import Speaker
from neutrino.dataplane.netlink.namespaces import Namespaces


def run(directory: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)  # a session has two
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    gc.freeze()
    speaker = Speaker(Path(directory), Namespaces(), time.monotonic)

    def stop(number: int, frame: object) -> NoReturn:
        speaker.end()
        sys.exit()  # here, as the loop may wait for a second

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    while True:
        speaker.step()
