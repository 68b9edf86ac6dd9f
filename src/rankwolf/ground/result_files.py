"""The names of files in a folder of results: one command writes them, and a later one looks for them.

Standard library only: commands import this before they know that they will need anything else.
"""

from __future__ import annotations

PAGE, SUMMARY, RESULT = "report.html", "summary.json", "result.npz"
