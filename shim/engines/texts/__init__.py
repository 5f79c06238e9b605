"""The texts of configuration files: single keys change, every other byte stays. `edits` puts it together."""
