"""Pins: what commit 6022cb0 makes of some thousand cases, and the comparison of a later build with it.

    python3 -m pins check [--venv DIR] [PATTERN…]    compare a build (in tests/, as `make pins` does)
    python3 -m pins make --from DIR                  store what a build makes, which is right for 6022cb0 only
    python3 -m pins show PATTERN…                    print cases and what is stored

`data/` holds the cases and what came of each, so a check depends on nothing else in the tree; the modules that made the
cases are `generated`, `vectors`, `bundles`, `traces`, `lives`, `commands` and `calls`. `machine` runs them in a root of
its own, `normal` takes out what differs from run to run, `compare` finds the differences, and `differences.toml` names
those that are meant.
"""
