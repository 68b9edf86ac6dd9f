"""The paper's Figure 4: faces, their low-rank part without shadows, and the shadows: ``python -m benchmarks figure4``.

yaleB01 to 03, δ = 0.01, ρ = 1 and ρ = 0.6, solved to a certified gap of 1e-3. The picture goes to
``benchmarks/results/figure4.png``.
"""

from __future__ import annotations

from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import FOLDER
from benchmarks.paper.figure3 import RHOS, draw, panel

# Light from above and from both sides: noses and brows cast shadows.
MOMENTS = {"yaleB01": 17, "yaleB02": 24, "yaleB03": 53}


def main() -> None:
    options_of(__doc__).parse_args()
    panels = [panel(name, moment, rho, "paper") for name, moment in MOMENTS.items() for rho in RHOS]
    assert set(MOMENTS) == set(data.FACES)
    draw(panels, FOLDER / "figure4.png")


if __name__ == "__main__":
    main()
