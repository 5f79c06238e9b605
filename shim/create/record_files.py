"""The files of records: how each is called, where it lies, and its format. HOT.

Engines take the environment of `exec` from records of their own, not from config.json, so what a device sets there is
not seen. So each create that injects leaves a record (shim.create.record), and each exec looks for one: where there is
none, which costs one failed open, exec is passed on as it is. An update of resources looks for it, too, for the rules
of the devices. shim.create.record_reader reads it.

Its name, KEY, names a container as the runtime's caller does; it is the short name (shim.host.identity) of these bytes:

    last part of the launcher's argv[0], NUL, the value of --root as it was given ("" without one), NUL, the id

The launcher computes the same (native/places.c), and hands it over as `key`.

A record is one line of JSON about the container's life, then one of JSON with the rest: format, the three texts of
the key (two containers may share one), path and identity of the config.json that we wrote, the requests, the
origins of the plan, the warnings, the hooks that create did itself, for each variable its new and old value, and the
cgroup rules of the nodes, which the launcher adds in an update (native/updaterules.c); where grants are enforced the
subject. It counts while config.json has
that identity, or was saved again and still holds all that was injected but the cgroup rules: `podman update` does that,
and replaces linux.resources. The first line stands alone, so that shim.create.record_sweep need not decode the rest.

The record of a create that the launcher repeated has a member `repeated` more (shim.create.answers).

The first line is a list: bundle, directories of which the low-level runtime keeps one while the container exists ([]:
unknown), mount namespace, process id of the create and of its parent. In another mount namespace than ours it cannot be
seen whether the bundle is gone; then the parent counts, which under an engine is the container's monitor.
(Version 0.1.0 wrote the bundle alone, a text.)
"""

from __future__ import annotations

from shim.host.identity import run_dir, short_name

FORMAT = 1
SWEPT = "swept"  # a file beside the directory: its time is that of the last sweep


def key(name: str, root: str, id: str) -> str:
    """The name of a container's record, see above.

    Arguments:
        name: last part of the launcher's argv[0].
        root: the value of --root, "" without one.
        id: the container's id.
    """
    return short_name("\0".join((name, root, id)))


def directory() -> str:
    """Where records lie: /run/shim/c, and for others than host root $XDG_RUNTIME_DIR/shim/c; "" for nowhere."""
    base = run_dir()
    return f"{base}/c" if base else ""
