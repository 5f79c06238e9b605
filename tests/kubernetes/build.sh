#!/bin/bash
# build.sh DIR: the programs of a Kubernetes node and of its control plane, from Debian's packages and source packages alone.
#
#   DIR/bin/kubelet kube-apiserver kube-controller-manager kube-scheduler    built from `apt-get source kubernetes`
#   DIR/bin/kubectl                                                          of the package kubernetes-client, unpacked
#
# etcd, containerd, runc and the CNI plugins are Debian's own packages and are installed. Each step is left out when its
# result is there. About 5 minutes on two idle cores, 3 GiB in DIR while it builds, 0.5 GiB afterwards (KEEP=1: all of it).
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1"; dir=$(cd "$1" && pwd)
built=(kubelet kube-apiserver kube-controller-manager kube-scheduler)
mkdir -p "$dir/bin"
step() { echo "build.sh: [$SECONDS s] $*"; }

# golang 1.19 is the compiler that Debian built this version with; no other was tried.
# rsync is what the source's makefiles copy generated files with. dpkg-dev unpacks a source package with its patches.
packages=(golang-1.19-go rsync make dpkg-dev etcd-server containerd runc containernetworking-plugins busybox-static
          iproute2 openssl)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  step "apt-get install ${missing[*]}"
  # Not started by their packages: node.py starts each of them itself, in a directory of its own.
  policy=/usr/sbin/policy-rc.d; made=
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' > $policy; chmod 755 $policy; made=1; }
  trap '[ -z "$made" ] || rm -f $policy' EXIT
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null
  [ -z "$made" ] || rm -f $policy; trap - EXIT
fi

# A private apt: the machine's own lists of Debian, as source lists. Nothing of the machine's apt is changed, and no host is
# named here: `indextargets` tells what the machine uses.
private_apt() {
  [ ! -s "$dir/apt/apt.conf" ] || return 0
  mkdir -p "$dir"/apt/{lists/partial,archives/partial,none}
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  # shellcheck disable=SC2016 # these are apt's variables
  local form='deb-src [signed-by=KEYS] $(REPO_URI) $(RELEASE) $(COMPONENT)'
  apt-get indextargets --format "$form" 'Created-By: Packages' 'Origin: Debian' | sed "s|KEYS|$keys|" | sort -u \
    > "$dir/apt/sources.list"
  [ -s "$dir/apt/sources.list" ] || { echo "build.sh: apt knows no list of Debian's: run \`apt-get update\`" >&2; exit 1; }
  cat > "$dir/apt/apt.conf.new" <<X
Dir::Etc::sourcelist "$dir/apt/sources.list"; Dir::Etc::sourceparts "$dir/apt/none";
Dir::State::lists "$dir/apt/lists"; Dir::Cache::archives "$dir/apt/archives";
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
APT::Sandbox::User "root"; Acquire::Languages "none";
X
  APT_CONFIG=$dir/apt/apt.conf.new apt-get -qq update
  mv "$dir/apt/apt.conf.new" "$dir/apt/apt.conf"
}

all_built() { local b; for b in "${built[@]}"; do [ -x "$dir/bin/$b" ] || return 1; done; }

if ! all_built; then
  if [ ! -e "$dir/source/Makefile" ]; then
    step "apt-get source kubernetes"
    private_apt
    rm -rf "$dir/unpack"; mkdir "$dir/unpack"
    (cd "$dir/unpack" && APT_CONFIG=$dir/apt/apt.conf apt-get -qq source kubernetes >/dev/null)
    mv "$dir"/unpack/kubernetes-*/ "$dir/source"
    rm -rf "$dir/unpack"
  fi
  # The GOPATH layout that this version wants: module mode would look for the modules on the network.
  mkdir -p "$dir/go/src/k8s.io"
  ln -sfn "$dir/source" "$dir/go/src/k8s.io/kubernetes"
  step "make ${built[*]}"
  # make, and not `go build`: it generates the OpenAPI definitions first, which the source package does not contain, and
  # without which kube-apiserver does not compile. Static (no cgo), so that no C library of another suite matters.
  # Without GOLDFLAGS it leaves debug information out.
  (cd "$dir/go/src/k8s.io/kubernetes" &&
    env -u GOFLAGS -u GOROOT PATH="/usr/lib/go-1.19/bin:$PATH" GO111MODULE=off CGO_ENABLED=0 GOPATH="$dir/go" \
      HOME="$dir" make WHAT="$(printf 'cmd/%s ' "${built[@]}")")
  for b in "${built[@]}"; do
    cp -L "$dir/source/_output/bin/$b" "$dir/bin/$b.new" && mv "$dir/bin/$b.new" "$dir/bin/$b"
  done
fi
# The source with its build cache, the private apt.
[ -n "${KEEP:-}" ] || rm -rf "$dir"/{source,go,unpack,apt,.cache,.config}

if [ ! -x "$dir/bin/kubectl" ]; then
  step "kubectl of kubernetes-client"
  # Unpacked, not installed: a kubectl of another version may come first in PATH, and one of more than a minor version's
  # difference is not supported with this apiserver.
  mkdir -p "$dir/client"
  (cd "$dir/client" && rm -f ./*.deb && apt-get -qq -o APT::Sandbox::User=root download kubernetes-client &&
    dpkg-deb --fsys-tarfile ./*.deb | tar -x ./usr/bin/kubectl)
  mv "$dir/client/usr/bin/kubectl" "$dir/bin/kubectl"
  rm -rf "$dir/client"
fi

step "done: $(du -sh "$dir/bin" | cut -f1) in $dir/bin, $("$dir/bin/kubelet" --version)"
