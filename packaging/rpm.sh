#!/bin/sh
# `make rpm`: rpm.sh ARCHIVE OUTPUT [BUNDLE], RPM packages of a source archive; with BUNDLE, a directory of Python
# libraries, those of the private layout (packaging/README.md).
set -eu

archive=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
bundle=${3:+$(realpath "$3")}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/SOURCES"
cp "$archive" "$scratch/SOURCES"
tar -C "$scratch" -xf "$archive" --strip-components=2 --wildcards '*/packaging/shim.spec'
set -- -ba --define "_topdir $scratch" ${bundle:+--define "bundle $bundle"}
# what builds it on Debian comes from packages of Debian, of which the database of rpm has none
test ! -e /etc/debian_version || set -- "$@" --nodeps
if ! rpmbuild "$@" "$scratch/shim.spec" >"$scratch/log" 2>&1; then
    cat "$scratch/log" >&2
    exit 1
fi
find "$scratch/RPMS" "$scratch/SRPMS" -type f -exec cp -t "$output" {} +
