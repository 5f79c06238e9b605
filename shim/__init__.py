"""Devices for containers by the Container Device Interface.

Kept empty of imports: every process of ours, the create path first, passes through this module.
"""

__version__ = "0.1.0"
