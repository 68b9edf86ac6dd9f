"""Which weights: the paper's rule, and those that follow from the noise of the data.

Nothing here solves the problem for the user; a few small fits on a sample measure the noise.
"""
