"""The functions that people call: check what was given, choose a problem and a solver, run, return.

Each public function is one file: ``decompose``, ``recover``, ``path``, ``select`` (``select_delta``). They share
``settings`` (the arguments, checked), ``rank`` and ``warm`` (the arguments ``rank=`` and ``start=``), ``walk`` (one
problem after another at falling δ) and ``measured_weights`` (the weights of ``recover``). Solvers, passes over the data
and measures of noise are not here but in the rooms below.
"""
