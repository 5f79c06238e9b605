#!/bin/sh
# `make deb`: deb.sh ARCHIVE OUTPUT [BUNDLE], a Debian package of a source archive; with BUNDLE, a directory of Python
# libraries, that of the private layout (packaging/README.md).
set -eu

archive=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
bundle=${3:+$(realpath "$3")}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xf "$archive"
top=$(echo "$scratch"/cdi_shim-*)
version=${top##*-}
cp "$archive" "$scratch/cdi-shim_$version.orig.tar.gz"
cd "$top"
if [ -n "$bundle" ]; then
    export SHIM_BUNDLE="$bundle" DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} pkg.cdi-shim.private"
fi
if ! dpkg-buildpackage -us -uc >"$scratch/log" 2>&1; then
    cat "$scratch/log" >&2
    exit 1
fi
grep '^cdi-shim_.* bytes, installed' "$scratch/log"
rm "$scratch/log"
find "$scratch" -maxdepth 1 -type f -name 'cdi-shim_*' -exec cp -t "$output" {} +
