"""``rankwolf`` and ``python -m rankwolf``."""

import signal
import sys


def main() -> int:
    """The command in a process of its own, and its exit code.

    While the first modules are imported there is nothing to clean: Ctrl-C ends the process as it would end any other,
    without a traceback, and so does SIGTERM. From then on the guard answers both.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rankwolf.cli import guarded_main

    return guarded_main()


if __name__ == "__main__":
    sys.exit(main())
