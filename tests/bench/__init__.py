"""Measurements; see __main__."""
