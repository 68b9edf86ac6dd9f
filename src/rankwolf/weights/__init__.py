"""Which weights: the paper's rule, and those that follow from the noise of the data.

:mod:`~rankwolf.weights.paper` is the paper's rule. :mod:`~rankwolf.weights.sample` draws a submatrix,
:mod:`~rankwolf.weights.descent` measures its noise by a few small fits, :mod:`~rankwolf.weights.edge` computes the
spectral norm of such noise, and :mod:`~rankwolf.weights.noise` turns both into λ_L and λ_S and defines from which
distance on an entry is an outlier.

The small fits of ``descent`` serve to measure noise. Nothing here knows of a problem: a rule gives two numbers, and
:mod:`rankwolf.api` makes a problem of them. Weights that need runs of a solver are chosen there, in
:mod:`rankwolf.api.measured_weights`.
"""
