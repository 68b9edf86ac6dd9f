"""The entry point of the command: ``rankwolf`` and ``python -m rankwolf``."""

import os
import signal
import sys
import warnings


def main() -> int:
    """Run the command; returns its exit code.

    While the first modules are imported there is nothing to clean up: Ctrl-C and SIGTERM end the process at once and
    without a traceback. From then on ``rankwolf.cli.main`` answers both. Only this package writes to standard error,
    not NumPy's warnings. If calls of LAPACK have outlived ``--max-seconds``, the process ends without waiting for them.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rankwolf.cli import main as run
    from rankwolf.ground.deadline import some_go_on

    if not os.environ.get("RANKWOLF_DEBUG"):
        warnings.simplefilter("ignore")
    code = run()
    if some_go_on() or code in (130, 143):  # a further signal must not end it in another way
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
