"""How good the answers are: against truth, against others."""
