"""Files from strangers: samples of each kind, changes to them, and what the command makes of the result."""
