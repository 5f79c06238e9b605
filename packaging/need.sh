#!/bin/sh
# Test for what a target of the Makefile needs:
# `need.sh build|wheel|deb|distribution|rpm|arm64|run|test|fuzz|sanitize`.
#
# Programs, headers and libraries are tested for, not packages: they may have come by another way. What is missing is
# named with its usual package. On Debian and its derivatives root has it installed, after the line is printed; in all
# other cases the script ends with status 1, and the line is what an administrator can run.
#
#   PYTHON   the interpreter that the build uses, python3 when not given
#   ROOT     a directory in place of /, for tests
set -eu

PYTHON=${PYTHON:-python3}
ROOT=${ROOT:-}
PATH=$PATH:$ROOT/usr/sbin:$ROOT/sbin
here=$(dirname "$0")

# set, whether it is needed or only wished for, what it is, and its package in Debian, Fedora and Arch.
# Debian: of `a/b` the first that its version of the distribution has.
table() {
    cat <<'EOF'
build    need program  gcc                     gcc                         gcc                     gcc
build    need header   stdlib.h                libc6-dev                   glibc-devel             glibc
build    need header   linux/openat2.h         linux-libc-dev              kernel-headers          linux-api-headers
build    need header   sys/capability.h        libcap-dev                  libcap-devel            libcap
build    need library  static-libc             libc6-dev                   glibc-static            glibc
build    wish library  musl                    musl-tools                  musl-gcc                musl
build    wish library  musl                    musl-tools                  musl-libc-static        musl
build    need python   3.10-or-later           python3                     python3                 python
build    need python   headers                 python3-dev                 python3-devel           python
build    need python   venv                    python3-venv                python3                 python
arm64    need program  mmdebstrap              mmdebstrap                  mmdebstrap              mmdebstrap
arm64    need program  aarch64-linux-gnu-gcc   gcc-aarch64-linux-gnu       gcc-aarch64-linux-gnu   aarch64-linux-gnu-gcc
wheel    need program  mmdebstrap              mmdebstrap                  mmdebstrap              mmdebstrap
wheel    need library  musl                    musl-tools                  musl-gcc                musl
wheel    need library  musl                    musl-tools                  musl-libc-static        musl
deb      need packaged dpkg-buildpackage       dpkg-dev                    dpkg-dev                    dpkg
deb      need debian   essentials              build-essential             -                       -
deb      need packaged dh                      debhelper                   debhelper                   debhelper
deb      need packaged lintian                 lintian                     lintian                     lintian
deb      need packaged meson                   meson                       meson                       meson
deb      need file     cffi/__init__.py        python3-cffi                python3-cffi                python-cffi
rpm      need packaged rpmbuild                rpm                         rpm-build               rpm-tools
rpm      need packaged meson                   meson                       meson                   meson
rpm      need file     cffi/__init__.py        python3-cffi                python3-cffi            python-cffi
distribution need file click/__init__.py       python3-click               python3-click               python-click
distribution need file rich/__init__.py        python3-rich                python3-rich                python-rich
distribution need file yaml/__init__.py        python3-yaml                python3-pyyaml              python-yaml
distribution need file prctl.py                python3-prctl               python3-prctl               python-prctl
run      need program  runc                    runc                        runc                    runc
run      need program  static-busybox          busybox-static              busybox                 busybox
test     need packaged crun                    crun                        crun                    crun
test     need packaged runc                    runc                        runc                    runc
test     need packaged busybox                 busybox-static              busybox                 busybox
test     need packaged containerd              containerd                  containerd              containerd
test     need packaged dockerd                 docker.io                   moby-engine             docker
test     need packaged docker                  docker-cli/docker.io        docker-cli              docker
test     need packaged docker-compose          docker-compose              docker-compose          docker-compose
test     need packaged podman                  podman                      podman                  podman
test     need packaged conmon                  conmon                      conmon                  conmon
test     need packaged newuidmap               uidmap                      shadow-utils            shadow
test     need packaged ip                      iproute2                    iproute                 iproute2
test     need packaged unshare                 util-linux                  util-linux              util-linux
test     need packaged curl                    curl                        curl                    curl
test     need packaged git                     git                         git                     git
test     need packaged systemd-analyze         systemd                     systemd                 systemd
test     need packaged strace                  strace                      strace                  strace
test     need packaged cni-bridge              containernetworking-plugins containernetworking-plugins cni-plugins
test     need packaged musl-loader             musl                        musl-libc               musl
fuzz     need clang    libFuzzer               clang                       clang                   clang
fuzz     need clang    libFuzzer               libclang-rt-dev/libclang-rt-14-dev compiler-rt      compiler-rt
sanitize need gcc      sanitizers              gcc                         libasan                 gcc-libs
sanitize need gcc      sanitizers              gcc                         libubsan                gcc-libs
EOF
}

# The sets that a target stands for
sets() {
    case $1 in
    build) echo build ;;
    wheel) echo build wheel ;;
    deb) echo build deb ;;
    rpm) echo build rpm ;;
    distribution) echo build deb distribution ;;
    arm64) echo build run test arm64 ;;
    run) echo build run ;;
    test) echo build deb run test ;;
    fuzz) echo build fuzz ;;
    sanitize) echo build deb run test sanitize ;;
    *) return 1 ;;
    esac
}

# Whether there is what a line of the table names, by its kind and name
has() {
    case "$1 $2" in
    "library static-libc") has library musl || compiles -static-pie ;;
    "library musl") "$here/../native/musl.sh" >/dev/null ;;
    "python 3.10-or-later") python 'import sys; sys.exit(sys.version_info < (3, 10))' ;;
    "python headers")
        python 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' ;;
    "python venv") python 'import ensurepip, venv' ;;
    # one that is linked dynamically names its loader in the first page
    "program static-busybox")
        busybox=$(command -v busybox) && ! head -c 4096 "$busybox" | grep -q /ld- ;;
    "packaged cni-bridge") any "$ROOT"/usr/lib*/cni/bridge "$ROOT"/usr/libexec/cni/bridge "$ROOT"/opt/cni/bin/bridge ;;
    "packaged musl-loader") any "$ROOT"/lib/ld-musl-*.so.1 ;;
    "clang libFuzzer") "$here/../tests/fuzz/clang.sh" >/dev/null ;;
    # dpkg-checkbuilddeps asks dpkg for that package, whatever compiler is there
    "debian essentials") test "$family" != debian || any "$ROOT/usr/share/build-essential/list" ;;
    file*) any "$ROOT/usr/lib/python3/dist-packages/$2" "$ROOT"/usr/lib*/python3.*/site-packages/"$2" ;;
    "gcc sanitizers") compiles -fsanitize=address,undefined ;;
    # the engine tests start the distribution's own programs
    packaged*) any "$ROOT/usr/bin/$2" "$ROOT/usr/sbin/$2" "$ROOT/bin/$2" "$ROOT/sbin/$2" ;;
    program*) command -v "$2" >/dev/null ;;
    header*) echo "#include <$2>" | gcc -E -x c - >/dev/null 2>&1 ;;
    esac
}

any() {
    for path in "$@"; do
        test ! -e "$path" || return 0
    done
    return 1
}

python() { "$PYTHON" -I -c "$1" 2>/dev/null; }

compiles() {
    scratch=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$scratch/a.c"
    status=0
    gcc "$@" -o "$scratch/a" "$scratch/a.c" 2>/dev/null || status=1
    rm -r "$scratch"
    return $status
}

# How a line of the table is called in a message
phrase() {
    case "$1 $2" in
    "library static-libc") echo "the static C library" ;;
    "library musl") echo "musl-gcc and its start files" ;;
    "python 3.10-or-later") echo "Python 3.10 or later ($PYTHON)" ;;
    "python headers") echo "the headers of $PYTHON" ;;
    "python venv") echo "venv and ensurepip of $PYTHON" ;;
    "program static-busybox") echo "a busybox that is linked statically" ;;
    "packaged cni-bridge") echo "the network plugins of CNI" ;;
    "packaged musl-loader") echo "the loader of musl" ;;
    "clang libFuzzer") echo "clang with libFuzzer" ;;
    "gcc sanitizers") echo "the sanitizers of gcc" ;;
    "debian essentials") echo "what every build of a Debian package may use" ;;
    packaged*) echo "the program $2 in /usr" ;;
    "file cffi/__init__.py") echo "cffi for the Python of the distribution" ;;
    *) echo "the $1 $2" ;;
    esac
}

# debian, fedora or arch; "" for another
family() {
    (
        ID='' ID_LIKE=''
        test ! -r "$ROOT/etc/os-release" || . "$ROOT/etc/os-release"
        for name in $ID $ID_LIKE; do
            case $name in
            debian | ubuntu) echo debian; exit ;;
            fedora | rhel | centos) echo fedora; exit ;;
            arch) echo arch; exit ;;
            esac
        done
    )
}

# The package of a line: DEBIAN FEDORA ARCH
package() {
    case $family in
    debian)
        for name in $(echo "$1" | tr / ' '); do
            if apt-cache show "$name" >/dev/null 2>&1; then
                break
            fi
        done
        echo "$name" ;;
    fedora) echo "$2" ;;
    arch) echo "$3" ;;
    esac
}

# Set `missing` to lines "need|wish PACKAGE KIND NAME" for the sets given
look() {
    missing=$(
        table | while read -r set level kind name debian fedora arch; do
            case " $* " in
            *" $set "*)
                has "$kind" "$name" </dev/null ||
                    echo "$level $(package "$debian" "$fedora" "$arch") $kind $name" ;;
            esac
        done
    )
}

# The packages in `missing`, each once
packages() {
    echo "$missing" | awk 'NF == 4 && !seen[$2]++ { printf " %s", $2 }'
}

wanted=$(sets "${1:-}") || {
    echo "usage: $0 build|wheel|deb|distribution|rpm|arm64|run|test|fuzz|sanitize" >&2
    exit 2
}
if python pass && ! has python 3.10-or-later; then  # no package of this distribution mends it
    version=$(python 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
    echo "Python 3.10 or later is needed, and $PYTHON is $version: make PYTHON=/path/to/a/newer/python3" >&2
    exit 1
fi
family=$(family)
# shellcheck disable=SC2086  # a list of words
look $wanted
test -n "$missing" || exit 0

if [ "$family" = debian ] && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086  # the index may name other packages now
    look $wanted
    line="apt-get install -y --no-install-recommends$(packages)"
    echo "$line"
    $line -qq >/dev/null
    # shellcheck disable=SC2086
    look $wanted
fi

echo "$missing" | sed -n 's/^wish//p' | while read -r words; do
    # shellcheck disable=SC2086
    set -- $words
    test $# = 3 || set -- "" "$@"
    echo "note: $(phrase "$2" "$3") would make the launcher start faster${1:+ (package $1)}" >&2
done
missing=$(echo "$missing" | grep '^need' || true)
test -n "$missing" || exit 0

echo "missing:" >&2
echo "$missing" | while read -r level words; do
    # shellcheck disable=SC2086
    set -- $words
    test $# = 3 || set -- "" "$@"
    echo "  $(phrase "$2" "$3")${1:+ (package $1)}"
done | awk '!seen[$0]++' >&2
case $family in
debian) echo "as root: apt-get install -y --no-install-recommends$(packages)" >&2 ;;
fedora) echo "as root: dnf install$(packages)" >&2 ;;
arch) echo "as root: pacman -S --needed$(packages)" >&2 ;;
esac
exit 1
