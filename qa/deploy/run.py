"""`make deploy-test`: the steps in namespaces that scripts/deploy-test has made. Exit status 0: all have passed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence

from qa.deploy import identity, steps, traffic
from qa.deploy.cloud import SHAPES, Cloud
from qa.deploy.identity import Tokens
from qa.deploy.machines import Failed, Place, build_networks
from qa.deploy.results import Result, table
from qa.deploy.steps import Step, packages

# Findings of `neutrino doctor` about these machines, which are namespaces: no module can be loaded, no clock be set.
ACCEPTED: tuple[str, ...] = ()
BEGAN = time.monotonic() - float(os.environ.get("BEGAN", "0"))


def say(text: str) -> None:
    seconds = int(time.monotonic() - BEGAN)
    print(f"deploy-test: {seconds // 60:2d}:{seconds % 60:02d} {text}", flush=True)


def boot(cloud: Cloud) -> None:
    cloud.operator.make_key()
    for machine in cloud.machines.values():
        cloud.operator.admit(machine)
        machine.boot()
    for machine in cloud.machines.values():
        machine.wait()


def chosen(shape: str, names: str) -> list[Step]:
    wanted = [name for name in names.split(",") if name]
    if unknown := set(wanted) - {step.name for step in steps.STEPS}:
        sys.exit(f"deploy-test: there is no step {', '.join(sorted(unknown))}; STEPS=list prints them")
    return [
        step for step in steps.STEPS if shape in step.shapes and (not wanted or step.name in wanted or step.is_needed)
    ]


def run(cloud: Cloud, chosen: Sequence[Step], results: list[Result]) -> None:
    for step in chosen:
        say(step.text)
        result = Result(step.name)
        results.append(result)
        began = time.monotonic()
        try:
            step.run(cloud, result)
        except Failed as error:
            result.failure = str(error)
        except Exception:
            result.failure = traceback.format_exc()
        result.seconds = time.monotonic() - began
        for figure in result.figures:
            say(f"    {figure}")
        if not result.passed:
            say(f"    FAILED: {result.failure}")
            if step.is_needed:
                return


def stay(cloud: Cloud, results: list[Result]) -> None:
    """Run steps as they are asked for, with their code as it is then: a step that has failed is corrected and repeated."""
    requests = cloud.place.work / "steps"
    os.mkfifo(requests)
    say(f"waiting for names of steps: echo upgrade >{requests}; Ctrl-C ends it")
    while True:
        names = requests.read_text().replace(",", " ").split()
        importlib.reload(traffic)
        importlib.reload(steps)
        known = {step.name: step for step in steps.STEPS}
        if unknown := set(names) - set(known):
            say(f"there is no step {', '.join(sorted(unknown))}")
        run(cloud, [known[name] for name in names if name in known], results)
        print(table(results), flush=True)
        say("waiting")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the steps")
    parser.add_argument("--stay", action="store_true", help="wait after the steps, for names of others")
    options = parser.parse_args()
    if options.list:
        for step in steps.STEPS:
            print(f"{step.name:14} {step.text}{'' if len(step.shapes) > 1 else ' (full shape)'}")
        return 0
    shape = os.environ.get("SHAPE") or "small"
    if shape not in SHAPES:
        sys.exit(f"deploy-test: SHAPE={shape}: {' or '.join(SHAPES)}")
    asked = chosen(shape, os.environ.get("STEPS", ""))
    cloud = Cloud(Place.of_environment(os.environ), SHAPES[shape], ACCEPTED)
    results: list[Result] = []
    build_networks()
    say(f"starting {len(cloud.machines)} machines, the database and Keystone")
    boot(cloud)
    cloud.databases.start()
    with identity.running(cloud.place.work, cloud.url) as cloud.identity:
        cloud.tokens = Tokens(cloud.identity)
        cloud.write_inventory(packages(cloud))
        try:
            run(cloud, asked, results)
        finally:
            print(table(results), flush=True)
        if options.stay:
            stay(cloud, results)
    failed = [result.step for result in results if not result.passed]
    missing = len(asked) - len(results)
    say(f"failed: {', '.join(failed)}" if failed else f"all {len(results)} steps have passed")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
