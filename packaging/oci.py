"""Make the image for nodes of Kubernetes: `make oci-image`. No daemon takes part, and nothing is run in it.

    Debian's packages  -> what Python, gRPC and protobuf need, and no other file of them      the lower layer
    build/image        -> /usr/lib/shim/image, with interpreter.json                          the upper layer
                          /usr/bin/shim and /usr/lib/shim/launch, so that `shim` runs in the image itself

`shim node install` copies the files of /usr/lib/shim/image to the host, and the Python that interpreter.json lists; so
image and host run the same interpreter and the same modules, once in the image. gRPC stays in the image.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import oci_interpreter
import oci_layout
import oci_packages
from oci_layout import Entry

NAME = "localhost/cdi-shim"
PAYLOAD = "usr/lib/shim/image"
# Of Debian's packages: the libraries of the plugin, and of the extension modules of shim
PACKAGES = ("python3-grpcio", "python3-protobuf", "libcap2")
_MODULES = "usr/lib/python3/dist-packages"
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
_DIRECTORIES = {"tmp": 0o1777, "run": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "host": 0o755, "root": 0o700}


def version_of_python(image: Path) -> str:
    """The Python for which the modules of an image were compiled, "3.11" for instance."""
    soabi: str = json.loads((image / "image.json").read_text(encoding="utf-8"))["soabi"]
    digits = soabi.split("-")[1]
    version = f"{digits[0]}.{digits[1:]}"
    if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        sys.exit(f"the modules were built for Python {version}, this is {sys.version_info[:2]}: use the same PYTHON")
    return version


def base(root: Path, version: str, image: Path, controls: dict[str, str]) -> tuple[dict[str, Entry], dict[str, Any]]:
    """The lower layer, and the document of the interpreter.

    Arguments:
        root: with the unpacked packages.
        version: of Python.
        image: what packaging/image.py made.
        controls: name -> control file of each package.
    """
    modules = [path for name in ("grpc", "google") for path in sorted((root / _MODULES / name).rglob("*"))]
    if not modules:
        sys.exit(f"the packages have no gRPC in /{_MODULES}")
    compile_all(root, [root / f"usr/lib/python{version}", root / _MODULES])
    modules = [path for name in ("grpc", "google") for path in sorted((root / _MODULES / name).rglob("*"))]
    ours = sorted((image / "modules").rglob("*.so"))
    document = oci_interpreter.described(root, version, ours)
    needing = [root / path for path in document["files"].values() if path.endswith(".so")]
    needing += [path for path in modules if path.suffix == ".so"]
    loader, libraries = oci_interpreter.needed(root, [root / document["files"]["bin/python3"], *needing, *ours])
    multiarch = str(next(path for name, path in libraries.items() if name == loader).parent.relative_to(root))
    entries = {f"{name}": Entry(link=f"usr/{name}") for name in oci_packages.MERGED}
    entries |= {path: Entry(mode, is_directory=True) for path, mode in _DIRECTORIES.items()}
    entries |= {path: Entry(source=text.encode()) for path, text in _TEXTS.items()}
    entries |= {"var/run": Entry(link="/run"), "usr/lib64/" + loader: Entry(link=f"/{multiarch}/{loader}")}
    for path in [*(root / one for one in document["files"].values()), *modules, *libraries.values()]:
        if path.is_file():
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            entries[str(path.relative_to(root))] = Entry(mode, path)
    for name, path in libraries.items():  # programs ask for a library by this name
        entries.setdefault(f"{path.parent.relative_to(root)}/{name}", Entry(link=path.name))
    for name, control in controls.items():
        entries[f"var/lib/dpkg/status.d/{name}"] = Entry(source=control.encode())  # for scanners of images
        licence = root / f"usr/share/doc/{name}/copyright"
        if licence.is_file():
            entries[f"usr/share/doc/{name}/copyright"] = Entry(0o644, licence)
    return entries, document


def compile_all(root: Path, directories: list[Path]) -> None:
    """Byte-compile modules: Debian's packages do it when they are installed, and here nothing is installed."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for directory in directories:
        for path in oci_interpreter.standard_library(directory):
            if path.suffix == ".py" and not compileall.compile_file(
                path, quiet=1, force=True, invalidation_mode=mode, stripdir=str(root), prependdir="/"
            ):
                sys.exit(f"{path} cannot be compiled")


def own(image: Path, version: str, document: dict[str, Any]) -> dict[str, Entry]:
    """The upper layer: the files for a host, and shim itself."""
    entries = {
        f"{PAYLOAD}/{path.relative_to(image)}": Entry(0o755 if path.stat().st_mode & 0o100 else 0o644, path)
        for path in sorted(image.rglob("*"))
        if path.is_file()
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    entries[f"{PAYLOAD}/interpreter.json"] = Entry(source=text.encode())
    entries["usr/lib/shim/launch"] = Entry(source=f"/usr/bin/python{version}\n/{PAYLOAD}/modules\n".encode())
    entries["usr/bin/shim"] = Entry(0o755, image / "bin/shim")
    return entries


def make(image: Path, cache: Path, target: Path) -> tuple[Path, Path]:
    """Make the image.

    Arguments:
        image: what packaging/image.py made.
        cache: a directory for packages.
        target: a directory for the result.
    Returns:
        the image layout, a directory, and the same as a tar.
    """
    version = version_of_python(image)
    names = [f"python{version}-minimal", f"libpython{version}-stdlib", *PACKAGES]
    root, controls = oci_packages.unpacked(names, cache)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    entries, document = base(root, version, image, controls)
    layers = [
        oci_layout.layer(entries, epoch, f"Debian {oci_packages.suite()}: Python {version}, gRPC, protobuf"),
        oci_layout.layer(own(image, version, document), epoch, "shim"),
    ]
    release: str = json.loads((image / "image.json").read_text(encoding="utf-8"))["version"]
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    config = {
        "Entrypoint": ["/usr/bin/shim"],
        "Cmd": ["node", "--help"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": "shim",
            "org.opencontainers.image.description": "devices for containers by the Container Device Interface",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": release,
        },
    }
    files = oci_layout.image(layers, config, architecture, created, f"{NAME}:{release}")
    layout, tar = target / "oci-image", target / f"cdi-shim_{release}_{architecture}.oci.tar"
    fresh = target / "oci-image.new"
    shutil.rmtree(fresh, ignore_errors=True)
    for path, data in files.items():
        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
        (fresh / path).write_bytes(data)
    shutil.rmtree(layout, ignore_errors=True)
    fresh.rename(layout)
    tar.write_bytes(oci_layout.archive(files, epoch))
    size = sum(len(layer.data) for layer in layers)
    print(f"{NAME}:{release}: {size / 1e6:.1f} MB in {len(layers)} layers, {len(controls)} packages")
    return layout, tar


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    print(*make(arguments.image.absolute(), arguments.cache.absolute(), arguments.target.absolute()), sep="\n")
