"""`make openstack`: start an OpenStack with Nova on neutrino, check it, and remove it.

    python -m qa.openstack.run [--only NAME …] [--keep] [--attach] [--down] [--list] [--state DIR]

`--keep` leaves the cloud running, `--attach` runs checks on a kept one, `--down` removes it. The run has its own network
namespace, the controller's; nothing of the machine's network is touched. Needs root.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from neutrino import __version__
from neutrino.lab.errors import LabError
from qa.openstack import hosts, services
from qa.openstack.checks.expect import CheckError
from qa.openstack.cloud import VENV, WORK, Cloud, Say, progress
from qa.openstack.guest import guest_files
from qa.openstack.results import FAILED, PASSED, Result, table, write
from qa.openstack.services_more.catalog import ALL_CHECKS, DEFAULT_CHECKS, services_for
from qa.openstack.services_more.environment import MORE_PACKAGES, more_versions

INSIDE = "NEUTRINO_OPENSTACK_NAMESPACE"
PACKAGES = ("nova", "keystone", "openstack-placement", "glance", "os-vif", "openstacksdk")
PROGRAMS = {
    "libvirt": ["libvirtd", "--version"],
    "QEMU": ["qemu-img", "--version"],
    "Open vSwitch": ["ovs-vswitchd", "--version"],
    "MariaDB": ["mariadbd", "--version"],
}


def main(arguments: Sequence[str]) -> int:
    args = _parse(arguments)
    if args.list:
        print("\n".join(f"{name:28} {(check.__doc__ or '').strip()}" for name, check in ALL_CHECKS.items()))
        return 0
    if os.geteuid() != 0:
        print("make openstack: namespaces, Open vSwitch and libvirt need root", file=sys.stderr)
        return 1
    if not os.environ.get(INSIDE):
        return _enter_namespace(args, arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds: the cloud is removed
    began = time.monotonic()
    say = progress(began)
    cloud = Cloud(args.state, say)
    if args.down:
        cloud.down()
        return 0
    results: list[Result] = []
    try:
        names = args.only or list(DEFAULT_CHECKS)
        services.start(cloud, services_for(names))
        run_checks(cloud, names, results, say, began + 60 * args.minutes)
    except LabError as error:
        print(f"make openstack: {error}", file=sys.stderr)
        results.append(Result("start", FAILED, time.monotonic() - began, str(error)))
    except Exception:
        results.append(Result("start", FAILED, time.monotonic() - began, traceback.format_exc()))
        traceback.print_exc()
    except KeyboardInterrupt:
        results.append(Result("interrupted", FAILED, time.monotonic() - began, "interrupted"))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the removal
        if args.keep or args.attach:
            say(f"kept in {args.state}; logs in {cloud.lab.paths.logs}; remove it with --down")
        else:
            cloud.down(keep_logs=WORK / "logs")
    report = write(WORK, results, versions())
    print(table(results))
    print(f"written: {report}, and results.json; logs are in {WORK / 'logs'}")
    return 0 if results and all(each.is_passed for each in results) else 1


def run_checks(cloud: Cloud, names: Sequence[str], results: list[Result], say: Say, deadline: float) -> None:
    """Run the checks one after the other; one that fails does not end the run. After the deadline none begins."""
    for name in names:
        began = time.monotonic()
        if began > deadline:
            results.append(Result(name, FAILED, 0.0, "not run: the time is over (--minutes)"))
            continue
        say(f"check {name}")
        try:
            detail, outcome = ALL_CHECKS[name](cloud), PASSED
        except (CheckError, LabError) as error:
            detail, outcome = str(error), FAILED
        except Exception:
            detail, outcome = traceback.format_exc().strip().rpartition("\n")[2] + "\n" + traceback.format_exc(), FAILED
        results.append(Result(name, outcome, time.monotonic() - began, detail))
        say(f"check {name}: {outcome}  {detail}")


def versions() -> Mapping[str, str]:
    """Of everything that took part."""
    found = {"neutrino": __version__}
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    done = subprocess.run([VENV / "bin/python", "-c", code, *PACKAGES], capture_output=True, text=True, check=False)
    found.update(zip(PACKAGES, done.stdout.split(), strict=False))
    found.update(more_versions(MORE_PACKAGES))
    for name, argv in PROGRAMS.items():
        text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        numbers = [word for word in text.replace("-", " ").split() if word[:1].isdigit() and "." in word]
        found[name] = numbers[0] if numbers else "unknown"
    return found


def _enter_namespace(args: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run this program again in a new network namespace, or in that of a kept cloud."""
    enter = ["unshare", "--net", "--"]
    if args.attach:
        enter = ["nsenter", f"--target={hosts.holder_of(args.state)}", "--net", "--"]
    elif args.state.exists():
        if not args.down:
            print(f"make openstack: removing the previous cloud in {args.state}", flush=True)
        Cloud(args.state, print).down()
    if args.down:
        return 0
    guest_files(progress())  # now, as packages are downloaded: the namespace has no way out
    os.environ[INSIDE] = "1"
    os.execvp(enter[0], [*enter, sys.executable, "-m", "qa.openstack.run", *arguments])


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m qa.openstack.run", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=list(ALL_CHECKS),
        help="run these checks (default: all but tempest)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the cloud running")
    parser.add_argument("--attach", action="store_true", help="run checks on a kept cloud")
    parser.add_argument("--down", action="store_true", help="remove a kept cloud")
    parser.add_argument("--list", action="store_true", help="list the checks")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no check later than this (60)")
    parser.add_argument("--state", type=lambda text: Path(text).absolute(), default=WORK / "cloud", metavar="DIR")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
