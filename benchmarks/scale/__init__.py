"""Matrices larger than memory or than one machine."""
