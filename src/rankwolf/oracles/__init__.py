"""What the algorithms ask of the two norms: norm, linear minimisation, proximal map, projection."""

from rankwolf.oracles import l1, nuclear

__all__ = ["l1", "nuclear"]
