"""`neutrino trace`: finds the ports that are named, asks the API, and prints the answer."""

import argparse
import ipaddress
import json
import sys
import uuid
from collections.abc import Mapping

from neutrino.cli import cloud
from neutrino.cli.cloud import ApiError, Cloud
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.trace.arguments import EXTERNAL
from neutrino.cli.trace.render import Style, render
from neutrino.model.objects import Object

MAX_CANDIDATES = 10
UNKNOWN = 3
_STATUS = {"delivered": 0, "dropped": 1}


def trace(args: argparse.Namespace) -> int:
    _check(args)
    try:
        api = cloud.connect(args)
        asked, names = request(api, args)
        answer = api.post("/v2.0/traces", {"trace": asked})["trace"]
    except ApiError as error:
        raise CommandError(str(error), INVALID if error.status < 500 else UNKNOWN) from None
    except CommandError as error:  # 1 would mean that the packet is dropped
        raise CommandError(str(error), error.exit_status if error.exit_status != 1 else UNKNOWN) from None
    if args.json:
        print(json.dumps(answer, indent=2))
    else:
        print(render(answer, Style(colours=sys.stdout.isatty()), flows=args.flows, names=names))
    return exit_status(answer)


def exit_status(trace: Object) -> int:
    """Judge by the worse of both directions: a drop is certain, whatever is unknown about the other direction."""
    verdicts = [trace["verdict"], *([trace["return_verdict"]] if trace.get("return_verdict") else [])]
    statuses = {_STATUS.get(verdict, UNKNOWN) for verdict in verdicts}
    return 1 if 1 in statuses else max(statuses)


def _check(args: argparse.Namespace) -> None:
    if (args.source is None) == (args.origin is None):
        raise CommandError("give either SOURCE or --from external", INVALID)


def request(api: Cloud, args: argparse.Namespace) -> tuple[Object, Mapping[str, str]]:
    """Return the attributes of the trace, and the names of its ports by id: as given, if they have none of their own."""
    names: dict[str, str] = {}

    def named(text: str, argument: str, *, sends: bool = False) -> str:
        port = find_port(api, text, argument, sends=sends)
        names[str(port["id"])] = str(port.get("name") or text)
        return str(port["id"])

    source: Object = {"source": EXTERNAL}
    if not args.origin:
        source = {"source_port_id": named(args.source, "SOURCE", sends=True)}
    # An address is sent as it is: which port has it depends on where the packet comes from.
    if is_address(args.destination):
        destination = {"destination_address": args.destination}
    else:
        destination = {"destination_port_id": named(args.destination, "--to")}
    given = {
        "protocol": args.protocol,
        "source_port": args.source_port,
        "destination_port": args.port,
        "icmp_type": args.icmp_type,
        "icmp_code": args.icmp_code,
        "source_address": args.source_address,
        "source_mac": args.source_mac,
        "ip_version": args.ip_version,
        "packet_size": args.size,
        "flows": args.flows or None,
    }
    return source | destination | {k: value for k, value in given.items() if value is not None}, names


def find_port(api: Cloud, text: str, argument: str, *, sends: bool = False) -> Object:
    """Find the port with this id, name or fixed IP; a sender also by its floating IP."""
    if is_address(text):
        ports = list(api.list("ports", fixed_ips=f"ip_address={text}"))
        if not ports and sends:
            behind = [fip["port_id"] for fip in api.list("floatingips", floating_ip_address=text) if fip["port_id"]]
            ports = list(api.list("ports", id=behind[0])) if behind else []
    else:
        ports = list(api.list("ports", id=text)) if _is_id(text) else []
        ports = ports or list(api.list("ports", name=text))
    if not ports:
        raise CommandError(f"{argument}: there is no port {text}, by id, name or fixed IP", INVALID)
    if len(ports) > 1:
        several = "; ".join(map(_described, ports[:MAX_CANDIDATES]))
        more = f"; and {len(ports) - MAX_CANDIDATES} more" if len(ports) > MAX_CANDIDATES else ""
        raise CommandError(f"{argument}: {len(ports)} ports match {text}, name one by its id: {several}{more}", INVALID)
    return dict(ports[0])


def _described(port: Object) -> str:
    addresses = ", ".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "no address"
    name = f" {port['name']}" if port.get("name") else ""
    return f"{port['id']}{name} ({addresses}, network {port['network_id']})"


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
