"""The entry point of the command: ``rankwolf`` and ``python -m rankwolf``."""

import signal
import sys


def main() -> int:
    """Run the command in a process of its own; returns its exit code.

    While the first modules are imported there is nothing to clean up: Ctrl-C and SIGTERM end the process at once and
    without a traceback. From then on ``guarded_main`` answers both.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rankwolf.cli import guarded_main

    return guarded_main()


if __name__ == "__main__":
    sys.exit(main())
