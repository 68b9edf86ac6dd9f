"""``python -m rankwolf``."""

import sys

from rankwolf.cli import main

if __name__ == "__main__":
    sys.exit(main())
