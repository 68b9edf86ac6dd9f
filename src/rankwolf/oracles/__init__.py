"""What the algorithms ask of the two norms: norm, linear minimisation, proximal map, projection.

There is one file for each norm, with functions of the same names that take arrays; ``subspace`` has the nuclear norm's
proximal map from a warm start. Nothing here knows of problems or passes.
"""

from rankwolf.oracles import l1, nuclear

__all__ = ["l1", "nuclear"]
