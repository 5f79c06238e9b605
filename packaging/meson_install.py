"""Install what Meson has built, as `make install` does: `meson install` runs it; see meson_options.txt.

An image (image.py) is made from the sources and the two things that were compiled, and placed by install.py. So there
is one layout, one order of renames and one uninstallation, and `launch` is written for the Python that Meson found.

The libraries are those of a directory that the packager names, or those of this Python where they lie: the launcher
starts Python without `site`, so the directories are written into shim/start.py of the installed modules. Only what is
asked for is searched there, behind all directories of Python itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # -I leaves it out

import image

HERE = Path(__file__).resolve().parent

# What the package imports -> what it is good for; the first ones for everything, the others for one purpose each
NEEDED = ("click", "rich", "yaml", "cffi", "_cffi_backend")
NEEDED_BELOW_3_11 = ("tomli",)
WISHED = {
    "pyroute2": "the hook netdevices",
    "pynvml": "asking NVIDIA's driver (without it only /proc is read)",
    "prctl": "dropping privileges in the hook netdevices and in the gate",
}
PACKAGES = "python3-click python3-rich python3-yaml python3-cffi"
EMPTY = "LIBRARIES: tuple[str, ...] = ()\n"


def libraries(bundle: Path | None) -> list[str]:
    """The directories that hold what the bundle does not; raises SystemExit where something needed is nowhere."""
    found: list[str] = []
    missing = []
    needed = NEEDED + (NEEDED_BELOW_3_11 if sys.version_info < (3, 11) else ())
    for name in (*needed, *WISHED):
        if bundle and _has(bundle, name):
            continue
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            if name in WISHED:
                print(f"note: without {name}, for {WISHED[name]}")
            else:
                missing.append(name)
            continue
        directory = str(
            Path(spec.origin).parent.parent if spec.submodule_search_locations else Path(spec.origin).parent
        )
        if directory not in found:
            found.append(directory)
    if missing:
        sys.exit(
            f"shim: {sys.executable} has no {', '.join(missing)}: install them (Debian: {PACKAGES}), "
            "or give -Dbundle=DIRECTORY (packaging/README.md)"
        )
    return found


def _has(bundle: Path, name: str) -> bool:
    patterns = (f"{name}/__init__.py", f"{name}.py", f"{name}.*.so")
    return any(path for pattern in patterns for path in bundle.glob(pattern))


def metadata(modules: Path, version: str) -> None:
    """What pip would write of our package: by it the bill of materials is made."""
    directory = modules / f"cdi_shim-{version}.dist-info"
    directory.mkdir()
    lines = ["Metadata-Version: 2.4", "Name: cdi-shim", f"Version: {version}", "License-Expression: Apache-2.0", ""]
    (directory / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    (directory / "licenses").mkdir()
    shutil.copyfile(HERE.parent / "LICENSE", directory / "licenses/LICENSE")
    names = ("METADATA", "RECORD", "licenses/LICENSE")
    (directory / "RECORD").write_text("".join(f"{directory.name}/{name},,\n" for name in names), encoding="utf-8")


def make(launcher: Path, core: Path, target: Path, bundle: Path | None) -> None:
    """Make the image."""
    shutil.rmtree(target, ignore_errors=True)
    modules = target / "modules"
    if bundle:
        shutil.copytree(bundle, modules)
    ours = shutil.ignore_patterns("__pycache__", "_core.*.so")
    shutil.copytree(HERE.parent / "shim", modules / "shim", ignore=ours)
    shutil.copyfile(core, modules / "shim/hooks" / core.name)
    shutil.copyfile(HERE.parent / "docs/findings.md", modules / "shim/cli/findings.md")
    start = modules / "shim/start.py"
    before = start.read_text(encoding="utf-8")
    after = before.replace(EMPTY, f"LIBRARIES: tuple[str, ...] = {tuple(libraries(bundle))!r}\n")
    if before == after and EMPTY not in before:
        sys.exit(f"shim: {start} has no line {EMPTY!r}")
    start.write_text(after, encoding="utf-8")
    (version,) = [
        line.split('"')[1]
        for line in (modules / "shim/__init__.py").read_text(encoding="utf-8").splitlines()
        if line.startswith("__version__")
    ]
    metadata(modules, version)
    hot: list[str | Path] = [
        sys.executable,
        "-I",
        "-X",
        "no_debug_ranges",
        HERE / "hot.py",
        modules,
        modules / "shim/hot",
    ]
    subprocess.run(hot, check=True)
    image.compile_all(modules)
    (target / "bin").mkdir()
    shutil.copyfile(launcher, target / "bin/shim")
    (target / "bin/shim").chmod(0o755)
    strip = shutil.which("strip")
    if strip:
        subprocess.run([strip, target / "bin/shim"], check=True)
    image.write_texts(target)


def main() -> None:
    """Make the image, and place it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("launcher", type=Path)
    parser.add_argument("core", type=Path)
    parser.add_argument("--sysconfdir", required=True)
    parser.add_argument("--tree", default="")
    parser.add_argument("--bundle", default="")
    given = parser.parse_args()
    target = Path(os.environ["MESON_BUILD_ROOT"], "image")
    make(given.launcher.resolve(), given.core.resolve(), target, Path(given.bundle) if given.bundle else None)
    if given.tree:
        image.name_tree(target, given.tree)
    place: list[str | Path] = [sys.executable, "-I", "-S", "-B", HERE / "install.py", "install", "--image", target]
    options = ["--prefix", os.environ["MESON_INSTALL_PREFIX"], "--sysconfdir", given.sysconfdir]
    sys.exit(subprocess.run([*place, *options, "--destdir", os.environ.get("DESTDIR", "")], check=False).returncode)


if __name__ == "__main__":
    main()
