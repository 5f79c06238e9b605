"""Base: what every part uses and what does not depend on CDI: findings, JSON, text of paths, writers of files."""
