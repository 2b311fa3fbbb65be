"""The process that the agent starts for a look of the shadow mode: objects on standard input, what was found on output."""

import argparse
import os
import resource
import sys
from typing import Final

import msgspec

from neutrino.agent import main
from neutrino.agent.takeover.look import Pace
from neutrino.cli import preflight
from neutrino.cli.child_process import end_with_parent

NICE: Final = 19
CPU_SECONDS: Final = 120


def shadow(args: argparse.Namespace) -> None:
    preflight.check_files(args.config_file)
    end_with_parent()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    look = main.look(args.config_file, sys.stdin.buffer.read(), Pace(args.seconds), args.first)
    sys.stdout.buffer.write(msgspec.json.encode(look))
