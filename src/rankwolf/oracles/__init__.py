"""What the algorithms ask of the two norms: norm, linear minimisation, proximal map, projection.

One file for each norm, with functions of the same names that take arrays. Nothing here knows of problems or passes.
"""

from rankwolf.oracles import l1, nuclear

__all__ = ["l1", "nuclear"]
