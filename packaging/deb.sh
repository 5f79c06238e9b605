#!/bin/sh
# `make deb`: deb.sh ARCHIVE OUTPUT DEPENDENCIES [LAYOUT], a Debian package of a source archive for the suite of this
# machine. DEPENDENCIES is a directory with the Python libraries of lock.txt, as image.py makes it; LAYOUT is private or
# distribution (README.md), by default what debian/layouts has for the suite. DEBFULLNAME and DEBEMAIL (man debchange) name
# the maintainer of the package, whose address in debian/ is an example.
set -eu

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
listed=$(sed -n "s/^${suite:-none} //p" "$(dirname "$0")/../debian/layouts")
usual=${listed%% *}
if [ "$1" = layout ]; then # which one is used by default
    echo "${usual:-private}"
    exit
fi
archive=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
dependencies=$(realpath "$3")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xf "$archive"
top=$(echo "$scratch"/cdi_shim-*)
version=${top##*-}
cp "$archive" "$scratch/cdi-shim_$version.orig.tar.gz"

layout=${4:-${usual:-private}}
case $layout in
private)
    export SHIM_BUNDLE="$dependencies" DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:-} pkg.cdi-shim.private"
    ;;
distribution)
    libraries=${listed#"$usual"}
    if [ "$usual" != distribution ]; then
        echo "deb.sh: debian/layouts has no libraries for the layout of the distribution in ${suite:-this suite}" >&2
        exit 2
    fi
    export SHIM_BUNDLE="$scratch/bundle"
    mkdir "$SHIM_BUNDLE"
    for library in $libraries; do
        records=$(echo "$dependencies/$(echo "$library" | tr - _)"-*.dist-info/RECORD)
        cut -d, -f1 "$records" | grep -v -e '__pycache__/' -e '^\.\./' | while read -r file; do
            test ! -e "$dependencies/$file" || (cd "$dependencies" && cp --parents "$file" "$SHIM_BUNDLE")
        done
    done
    ;;
*)
    echo "deb.sh: there is no layout $layout, but private and distribution" >&2
    exit 2
    ;;
esac
echo "layout: $layout${libraries:+, with$libraries bundled}"

cd "$top"
if [ -n "${DEBEMAIL:-}" ]; then
    maintainer="${DEBFULLNAME:-shim maintainers} <$DEBEMAIL>"
    sed -i "s|^Maintainer: .*|Maintainer: $maintainer|" debian/control
    sed -i "1,/^ -- /s|^ -- .*>  | -- $maintainer  |" debian/changelog
fi
if ! dpkg-buildpackage -us -uc >"$scratch/log" 2>&1; then
    cat "$scratch/log" >&2
    exit 1
fi
grep '^cdi-shim_.* bytes, installed' "$scratch/log"
rm "$scratch/log"
find "$scratch" -maxdepth 1 -type f -name 'cdi-shim_*' -exec cp -t "$output" {} +
