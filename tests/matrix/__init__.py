"""Distributions as directories, and the table of what passes in each."""
