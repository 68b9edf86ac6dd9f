"""A run: the loop, its progress and stopping rules, the judge, the proof, checkpoints, callbacks.

A run knows solvers by their contract only (:class:`rankwolf.solvers.Solver`); what an iteration does is their affair.
"""
