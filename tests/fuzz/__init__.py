"""Fuzz targets for readers in Python; those in C lie in native/fuzz."""
