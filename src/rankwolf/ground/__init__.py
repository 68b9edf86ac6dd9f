"""What everything stands on: the array type, low-rank matrices, Nesterov's sequence, complaints, the machine.

Nothing here knows of problems, data or solvers, and nothing here imports from the rest of the package.
"""
