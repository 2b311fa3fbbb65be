"""`neutrino policy check`: what is wrong in a policy file, before a server reads it."""

import argparse
import os

from neutrino.cli import preflight
from neutrino.cli.errors import INVALID, CommandError
from neutrino.cli.installed import SERVER_FILE, default_files
from neutrino.configuration.options import Configuration
from neutrino.logs import quiet
from neutrino.server.policy.files import Fault, PolicyFileError, find

GROUP = "oslo_policy"


def policy(args: argparse.Namespace) -> int:
    """Exit status 1 if there is anything wrong: of a misspelt name, the default rule stays in force."""
    from neutrino.server.config import configuration

    files = default_files(args.config_file, SERVER_FILE)
    preflight.check_files(files)
    conf = configuration(files)
    if args.file:
        if not os.path.isfile(args.file):
            raise CommandError(f"there is no file {args.file}", INVALID)
        _select(conf, args.file)
    faults = faults_of(conf)
    for fault in faults:
        print(f"{'error' if fault.refuses else 'warning'}: {fault}")
    if not faults:
        paths = find(conf).paths
        print(f"{', '.join(paths)}: valid" if paths else "there is no policy file: the default rules apply")
    return 1 if faults else 0


def faults_of(conf: Configuration) -> tuple[Fault, ...]:
    """Find faults of policy files: a server is assembled for it, as extension drivers have rules too. Nothing is opened."""
    from neutrino.server.main import assemble

    with quiet():
        try:
            server = assemble(conf)
        except PolicyFileError as error:
            return error.faults
        server.close()
    return server.authorizer.faults


def _select(conf: Configuration, file: str) -> None:
    """This file only, instead of those of the configuration."""
    from oslo_policy import opts

    opts.set_defaults(conf)  # registers the options
    conf.set_override("policy_file", os.path.abspath(file), GROUP)
    conf.set_override("policy_dirs", [], GROUP)
