"""Every figure that the documents print, measured: ``python -m benchmarks`` and the scripts beside it."""
