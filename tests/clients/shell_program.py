"""The program that `shell.Shell` runs: the `openstack` command again and again, without importing it each time.

Reads arguments from standard input, a JSON list a line, and answers each with a JSON line: exit status, output, errors.
"""

import contextlib
import io
import json
import sys

from openstackclient.shell import OpenStackShell


def main() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = OpenStackShell().run(json.loads(line))
            except SystemExit as end:  # the parser of arguments
                status = end.code if isinstance(end.code, int) else 1
        print(json.dumps([status, out.getvalue(), err.getvalue()]), file=answers, flush=True)


main()
