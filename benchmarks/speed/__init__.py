"""How long a run takes, and what it holds in memory."""
