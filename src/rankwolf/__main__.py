"""``python -m rankwolf``."""

import sys

from rankwolf.cli import guarded_main

if __name__ == "__main__":
    sys.exit(guarded_main())
