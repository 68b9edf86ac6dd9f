"""Which weights: the paper's rule, and those that follow from the noise of the data.

The rooms: :mod:`~rankwolf.weights.paper` is the paper's rule, :mod:`~rankwolf.weights.sample` draws a submatrix,
:mod:`~rankwolf.weights.descent` measures its noise by a few small fits, :mod:`~rankwolf.weights.edge` says how long
the singular values of such noise are, and :mod:`~rankwolf.weights.noise` turns that into λ_L and λ_S.
"""
