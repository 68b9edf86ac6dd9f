"""What everything stands on: the array type, low-rank matrices, complaints, the machine, files that appear whole.

Nothing here knows of problems, data or solvers, and nothing here imports from the rest of the package.
"""
