"""One file for each experiment; :mod:`benchmarks.harness.experiment` says what is in it."""
