#!/bin/sh
# Print the directory of musl's start files, with which a static-pie program is linked; status 1 where musl cannot be
# used. Distributions put them elsewhere (Debian /usr/lib/x86_64-linux-musl, Fedora /usr/x86_64-linux-musl/lib64, Arch
# /usr/lib/musl/lib), and musl-gcc without the package that has them is found, too: so its own link line is read.
set -eu
line=$(musl-gcc '-###' -x c /dev/null 2>&1) || exit 1
crti=$(printf '%s\n' "$line" | tr ' "' '\n\n' | grep '/crti\.o$' | head -n 1)
directory=${crti%/crti.o}
for file in rcrt1.o crti.o crtn.o libc.a; do
    test -f "$directory/$file" || exit 1
done
printf '%s\n' "$directory"
