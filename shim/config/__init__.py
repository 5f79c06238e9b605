"""Config: the settings of shim: which file counts, its keys, how it is read, and what the launcher reads of it."""
