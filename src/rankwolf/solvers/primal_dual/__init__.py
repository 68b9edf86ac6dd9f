"""The default for measurements: down the path of weights, then a splitting that closes the gap.

- :mod:`~rankwolf.solvers.primal_dual.path`: both weights start where L and S just leave 0, and fall to their values,
  while POGM, an accelerated proximal method, follows. Ranks stay small on the way.
- :mod:`~rankwolf.solvers.primal_dual.splitting`: over-relaxed primal-dual steps (Chambolle and Pock; Condat). Where
  AA* = diag(d) with a known d they are the steps of Douglas-Rachford. The dual variable y gives a lower bound while
  the run goes on.
"""

from rankwolf.solvers.primal_dual.settings import PrimalDualSettings
from rankwolf.solvers.primal_dual.solver import PrimalDual

__all__ = ["PrimalDual", "PrimalDualSettings"]
