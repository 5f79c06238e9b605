"""Base: what every part stands on and what knows nothing of CDI: findings, JSON, text of paths, writers of files."""
