"""The functions that people call: check what was given, choose a problem and a solver, run, return.

Nothing is computed here. Each function is one file; what they share is in :mod:`rankwolf.api.settings`.
"""
