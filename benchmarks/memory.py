"""Peak memory of FW-T, FISTA and the hybrid on Lobby: ``python -m benchmarks.memory``."""

from __future__ import annotations

from benchmarks.run import main

if __name__ == "__main__":
    main(["--only", "memory"])
