"""Random configurations of containerd: a main file, and files that it imports by path and pattern, also in circles.

Used against a real containerd: what its `config dump` says is what shim.engines must read from the same files.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from unit.engines.trees import toml

from shim.engines.containerd import config_files, runtime_tables
from shim.engines.model import Location
from shim.engines.texts.values import table_at, texts
from shim.host.host import Host

_IMPORTS = ["a.toml", "b.toml", "d/*.toml", "d/../b.toml", "main.toml", "DIR/d/x*.toml", "DIR/b.toml", "none/*.toml"]
_FILES = ["main.toml", "a.toml", "b.toml", "d/x1.toml", "d/x2.toml", "d/z.toml"]
_LEFT_OUT = {"sandboxer", "sandbox_mode"}  # of the built-in runc only


def write(top: Path, seed: int, versions: list[int], names: list[str]) -> Path:
    """Write a configuration, and return its main file.

    Arguments:
        top: an empty directory.
        seed: of the choice.
        versions: that a file may state; 0 for none.
        names: of the CRI plugin, in any version.
    """
    noise = random.Random(seed)
    (top / "d").mkdir()
    for name in _FILES:
        (top / name).write_text(_file(noise, str(top), versions, names, is_main=name == "main.toml"))
    return top / "main.toml"


def _file(noise: random.Random, top: str, versions: list[int], names: list[str], *, is_main: bool) -> str:
    document: dict[str, Any] = {"disabled_plugins": noise.sample(["io.containerd.x.v1.a", "io.containerd.x.v1.b"], 1)}
    version = noise.choice(versions)
    if version:
        document["version"] = version
    if is_main or noise.random() < 0.3:
        chosen = noise.sample(_IMPORTS, noise.randint(1 if is_main else 0, 3))
        document["imports"] = [one.replace("DIR", top) for one in chosen]
    lines = [f"{key} = {json.dumps(value)}" for key, value in document.items()]
    for name in noise.sample(names, noise.randint(0, len(names))):
        lines += _section(noise, f'plugins."{name}"')
    return "\n".join(lines) + "\n"


def _section(noise: random.Random, section: str) -> list[str]:
    lines = [f"[{section}]", f"enable_selinux = {noise.choice(['true', 'false'])}"]
    if noise.random() < 0.4:
        lines += [f"[{section}.containerd]", f'default_runtime_name = "{noise.choice(["runc", "foo", ""])}"']
    for name in noise.sample(["runc", "foo", "bar"], noise.randint(0, 3)):
        lines += [f"[{section}.containerd.runtimes.{name}]"]
        lines += noise.sample(
            [
                'runtime_type = "io.containerd.runc.v2"',
                f"container_annotations = {json.dumps(noise.sample(['x', 'y'], noise.randint(0, 2)))}",
                f"privileged_without_host_devices = {noise.choice(['true', 'false'])}",
            ],
            noise.randint(0, 3),
        )
        if noise.random() < 0.7:
            lines += [f"[{section}.containerd.runtimes.{name}.options]"]
            lines += noise.sample(['BinaryName = "/x"', 'BinaryName = ""', "SystemdCgroup = true"], 1)
    return lines


def read(main: Path, program: str, version: tuple[int, ...]) -> dict[str, Any]:
    """What shim.engines reads from it."""
    merged = config_files.merged(Host(), Location("containerd", str(main), program=program, version=version))
    return _important(merged)


def dumped(main: Path, program: str) -> dict[str, Any] | None:
    """What containerd says about it; None when it refuses the files."""
    done = subprocess.run(
        [program, "--config", main, "config", "dump"], capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode or not done.stdout:
        return None
    document = toml(done.stdout)
    return _important(config_files.Merged(document["version"], document["version"] > 2, document))


def _important(merged: config_files.Merged) -> dict[str, Any]:
    plugin = table_at(merged.document, ("plugins", merged.cri))
    return {
        "runtimes": {name: _said(one.table) for name, one in runtime_tables.runtimes(merged).items()},
        "default": runtime_tables.default(merged),
        "selinux": plugin.get("enable_selinux", False),
        "disabled": set(texts(merged.document.get("disabled_plugins"))),
    }


def _said(table: dict[str, Any]) -> dict[str, Any]:
    """A table without what is empty, which containerd takes for what is not there."""
    inner = {key: _said(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in inner.items() if value not in ("", 0, [], {}) and key not in _LEFT_OUT}
