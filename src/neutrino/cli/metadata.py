"""`neutrino metadata`: the process that answers instances, as the agent starts it."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--socket", required=True, help="where the agent steers it")
    parser.add_argument("--user", type=int, required=True, help="the number of the user that it becomes")
    parser.add_argument("--group", type=int, required=True, help="and of the group")
    parser.add_argument("--monitor-file", default="", help="a file to write the time to")
    parser.add_argument("--monitor-interval", type=float, default=5.0, help="every so many seconds")


def metadata(args: argparse.Namespace) -> int:
    from neutrino.agent.metadata.proxy.process import run

    run(args.socket, args.user, args.group, args.monitor_file, args.monitor_interval)
    return 0
