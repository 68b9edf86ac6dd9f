"""Every figure that the documents print, measured: ``python -m benchmarks.run`` and the scripts beside it."""
