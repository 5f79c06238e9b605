"""What the engine tests stand on: throw-away namespaces, images and bundles, one small class for each engine.

See ../README.md for the picture. Nothing here knows pytest; nothing here is skipped when a program is missing.
"""
