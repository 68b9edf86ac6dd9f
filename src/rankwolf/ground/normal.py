"""A fact about the normal distribution that robust statistics stand on."""

from __future__ import annotations

# The median of |x| for a standard normal x: a standard deviation is a median of moduli divided by this.
MEDIAN_OF_NORMAL = 0.6744897501960817
