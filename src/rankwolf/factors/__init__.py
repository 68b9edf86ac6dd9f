"""One robust factor model: x = c + V u + e, with a noise of its own for each column and cells that do not count.

It stands behind :class:`rankwolf.RobustPCA`, imputation, the scores of cells and rows, and the refit of a convex fit.
"""
