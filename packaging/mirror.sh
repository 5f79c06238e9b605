#!/bin/sh
# Print the archive of Debian from which roots are made: $MIRROR, or the one that this machine's apt uses.
set -eu
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 2>/dev/null | head -n 1)}
test -n "$mirror" || { echo "mirror.sh: apt has no archive here; set MIRROR to the address of one" >&2; exit 1; }
printf '%s\n' "$mirror"
