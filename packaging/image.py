"""Make an image: all files of an installation, below a directory, for install.py.

    modules/   the package and its dependencies, byte-compiled        bin/shim   the launcher
    share/     completion for three shells, the manual, documents     etc/       the logrotate file
    lib/       units of systemd and rules of udev, with @bindir@ where install.py writes PREFIX/bin
    image.json version, and the Python that the compiled modules are for

The dependencies are those of lock.txt, by hash, as wheels; python-prctl, which has none, is built with the tools of
this environment. They are unpacked and compiled once, and again only when the lock changes.

Byte code is of the kind that is never compared with its source (PEP 552, unchecked): installed modules do not change,
while their times do when a packager clamps or copies them, and the launcher starts Python with -B, so that stale byte
code would be compiled anew at each start and nobody would notice but the user, who waits.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import json
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "lock.txt"
# those for users, each of which leads to the others
DOCUMENTS = (
    *("configuration", "create", "deviations", "engines", "findings", "gate", "grants", "quickstart", "rules", "specs"),
    "troubleshooting",
)
BUILT = "python-prctl"  # published as source only


def compile_all(directory: Path) -> None:
    """Byte-compile a directory; raises SystemExit when a module cannot be compiled."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(directory, maxlevels=50, quiet=1, force=True, invalidation_mode=mode, workers=2):
        sys.exit(f"{directory}: not every module can be compiled")


def dependencies(cache: Path) -> Path:
    """A directory with the locked dependencies, compiled; created anew when the lock or Python has changed."""
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    directory = cache / f"dependencies-{key}"
    if directory.is_dir():
        return directory
    fresh = cache / "dependencies.new"
    shutil.rmtree(fresh, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--root-user-action=ignore"]
    options = ["--require-hashes", "--no-deps", "--only-binary=:all:", f"--no-binary={BUILT}", "--no-build-isolation"]
    subprocess.run([*pip, *options, "--no-compile", "--target", str(fresh), "-r", str(LOCK)], check=True)
    shutil.rmtree(fresh / "bin", ignore_errors=True)  # commands of the libraries, for the Python that runs this
    (fresh / "example.py").unlink()  # of nvidia-ml-py, which has it beside its module
    compile_all(fresh)
    for old in cache.glob("dependencies-*"):
        shutil.rmtree(old)
    return fresh.rename(directory)


def unpack(wheel: Path, image: Path) -> None:
    """The wheel's modules to modules/, its script, the launcher, to bin/."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(image / "modules")
    (data,) = (image / "modules").glob("*.data")
    (image / "bin").mkdir()
    (data / "scripts/shim").rename(image / "bin/shim")
    (image / "bin/shim").chmod(0o755)
    shutil.rmtree(data)
    for package in ("shim", *(path.name for path in (image / "modules").glob("cdi_shim-*"))):
        compile_all(image / "modules" / package)


def write_texts(image: Path) -> None:
    """Completion and manual from the commands of the image itself, the documents, and the files for other programs."""
    # late: found in the image only
    sys.path.insert(0, str(image / "modules"))
    import manual
    import sbom

    import shim.cli

    files = {
        "bash": "share/bash-completion/completions/shim",
        "zsh": "share/zsh/site-functions/_shim",
        "fish": "share/fish/vendor_completions.d/shim.fish",
    }
    texts = {f"share/man/man1/{name}": text for name, text in manual.pages(shim.cli.shim, shim.__version__).items()}
    for shell, path in files.items():
        texts[path] = shim.cli.completion.source(shim.cli.shim, shell)
    for name in DOCUMENTS:
        texts[f"share/doc/cdi-shim/{name}.md"] = (HERE.parent / f"docs/{name}.md").read_text(encoding="utf-8")
    texts["share/doc/cdi-shim/sbom.cdx.json"] = json.dumps(sbom.document(image), indent=2) + "\n"
    for name, text in sbom.licences(image).items():
        texts[f"share/doc/cdi-shim/licenses/{name}"] = text
    for rule in sorted((HERE / "rules.d").glob("*.toml")):
        texts[f"share/doc/cdi-shim/rules.d/{rule.name}"] = rule.read_text(encoding="utf-8")
    for source in sorted((HERE / "systemd").iterdir()):
        directory = "lib/udev/rules.d" if source.suffix == ".rules" else "lib/systemd/system"
        texts[f"{directory}/{source.name}"] = source.read_text(encoding="utf-8")
    texts["etc/logrotate.d/shim"] = (HERE / "logrotate").read_text(encoding="utf-8")
    about = {"version": shim.__version__, "soabi": sysconfig.get_config_var("SOABI")}
    texts["image.json"] = json.dumps(about) + "\n"
    for path, text in texts.items():
        file = image / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def name_tree(image: Path, name: str) -> None:
    """Let the private directory of an image have a name that begins so, in place of the version."""
    about = json.loads((image / "image.json").read_text(encoding="utf-8"))
    (image / "image.json").write_text(json.dumps({**about, "version": name}) + "\n", encoding="utf-8")


def make(wheel: Path, target: Path) -> None:
    """Make the image of a wheel; the target appears complete or not at all."""
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(dependencies(target.parent), fresh / "modules")
    unpack(wheel, fresh)
    write_texts(fresh)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    make(arguments.wheel, arguments.target.absolute())
