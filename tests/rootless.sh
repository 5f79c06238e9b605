#!/bin/sh
# Execute a test command: as root as it is, else in namespaces of its own, in which it is root of as much as possible.
#
# There it may mount, and has all ids that /etc/subuid gives this user. It has no device nodes, no cgroups and no engines;
# tests/conftest.py leaves out and counts what needs them.
set -eu

test "$(id -u)" != 0 || exec "$@"
PATH=$PATH:/usr/sbin:/sbin  # chroot, ip
options="--user --map-root-user --map-auto --mount --net --pid --fork --mount-proc"
# shellcheck disable=SC2086  # a list of words
if ! unshare $options true 2>/dev/null; then
    echo "note: without newuidmap and a range in /etc/subuid there is a single id" >&2
    options="--user --map-root-user --mount --net --pid --fork --mount-proc"
fi
# shellcheck disable=SC2086
if ! unshare $options true 2>/dev/null; then
    echo "note: this machine allows no user namespaces: run it as root" >&2
    exec "$@"
fi
# shellcheck disable=SC2086
# the shell stays process 1, which takes the orphans of tests
exec unshare $options sh -c 'ip link set lo up && "$@"; exit $?' sh "$@"
