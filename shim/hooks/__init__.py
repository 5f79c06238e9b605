"""Hooks, which run while a container starts: all of our C, and the little Python around it.

Installed as shim.hooks. Kept empty of imports, like shim itself.
"""
