"""Arguments of `neutrino trace`. Imports nothing slow: every command loads this."""

import argparse

from neutrino.cli import cloud
from neutrino.cli.parser import Parser

EXTERNAL = "external"
_DESCRIPTION = """\
Trace a packet between two ports, to an address, or from outside, and say why it arrives or not.
Ports are given by id, name or fixed IP, a sender also by its floating IP. The path follows from the server's data, and
each host on it is asked what its dataplane would do now; nothing is sent and nothing is changed.
"""
_EPILOG = """\
exit status: 0 the packet and its reply are delivered, 1 one of them is dropped, 2 wrong arguments, 3 it is not known

examples:
  neutrino trace web --to db --protocol tcp --port 5432
  neutrino trace web --to 198.51.100.7
  neutrino trace --from external --to 203.0.113.10 --protocol tcp --port 443
"""


def add_arguments(parser: Parser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("source", metavar="SOURCE", nargs="?", help="the sending port: id, name, fixed or floating IP")
    parser.add_argument("--to", dest="destination", metavar="DESTINATION", required=True, help="port or address")
    parser.add_argument("--from", dest="origin", choices=[EXTERNAL], help="from outside, instead of SOURCE")
    parser.add_argument("--protocol", default="icmp", help="tcp, udp, icmp, sctp … or a number (default: %(default)s)")
    parser.add_argument("--port", type=_number(65535), metavar="N", help="destination port")
    parser.add_argument("--source-port", type=_number(65535), metavar="N", help="source port")
    parser.add_argument("--icmp-type", type=_number(255), metavar="N", help="default: echo request")
    parser.add_argument("--icmp-code", type=_number(255), metavar="N", help="default: 0")
    parser.add_argument("--source-address", metavar="IP", help="another source address than that of the port")
    parser.add_argument("--source-mac", metavar="MAC", help="another source MAC address than that of the port")
    parser.add_argument("--size", type=_number(65535), metavar="BYTES", help="size of the IP packet")
    parser.add_argument("--ip-version", type=int, choices=[4, 6], help="where ports have addresses of both")
    parser.add_argument("--flows", action="store_true", help="with the flows and rules that the packet matches")
    cloud.add_arguments(parser)


def _number(most: int) -> type[int]:
    def number(text: str) -> int:
        value = int(text)
        if not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from 0 to {most}")
        return value

    return number  # type: ignore[return-value]
