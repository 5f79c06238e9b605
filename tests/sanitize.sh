#!/bin/bash
# Run the tests of the C parts against a build with ASan and UBSan: run by `make sanitize`, with the virtual environment
# of the tests first in PATH.
#
# The build gets an environment of its own: our package with the sanitized core, beside the packages of the first one.
# Python has the sanitizers' libraries loaded before anything else, for what calls the core; the launcher brings its own.
# A report ends the process, so descriptor 2 is not captured: the report would end with it.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=build/sanitize

test -d $directory/native ||
    meson setup $directory/native -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debug >/dev/null
meson compile -C $directory/native >$directory/log || { cat $directory/log; exit 1; }

rm -rf $directory/venv
"$(python3 -c 'import sys; print(sys._base_executable)')" -m venv --without-pip $directory/venv
python=$directory/venv/bin/python3
site='import sysconfig; print(sysconfig.get_path("purelib"))'
from=$(python3 -c "$site") to=$($python -c "$site")
echo "$from" >"$to/others.pth"
cp -r "$from/shim" "$to/shim"
cp $directory/native/native/_core*.so "$to/shim/hooks/"
cp $directory/native/native/shim $directory/venv/bin/

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0
SANITIZER=$(gcc -print-file-name=libasan.so)
export SANITIZER
$python "$(command -v pytest)" -q tests/unit/native/test_launcher.py
tested=()
for name in grammar scan needles places report hooks ldcache; do
    tested+=("tests/unit/native/test_$name.py")
done
LD_PRELOAD="$SANITIZER $(gcc -print-file-name=libubsan.so)" $python "$(command -v pytest)" -q --capture=sys "${tested[@]}"
