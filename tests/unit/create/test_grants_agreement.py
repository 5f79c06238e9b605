"""Whatever is refused where grants are enforced, the launcher has noticed: else Python would not have been asked.

Random config.json files and resources, near to what is refused: names in other letters, values of other types, numbers
that are cut, texts with escapes.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.create.granted_host import USUAL, Scene, enforcing
from unit.create.test_update_grants import may_open, outcome

from shim.base.findings import CdiError

Json = dict[str, Any]

NUMBERS: tuple[Any, ...] = (
    0,
    1,
    3,
    5,
    8,
    136,
    240,
    240,
    255,
    -1,
    -2,
    4336,
    (1 << 32) + 240,
    None,
    "240",
    240.0,
    True,
    [],
    99999999999,
)
NAMESPACES: tuple[Any, ...] = ([], None, [{"type": "mount", "path": "/x"}], [{"type": "mount"}])
CAPABILITIES: tuple[Any, ...] = ({"bounding": ["CAP_SYS_ADMIN"]}, {}, None, {"effective": ["CAP_MKNOD"]})
ANNOTATIONS: tuple[Any, ...] = (
    {"krun.gpu_flags": "x"},
    {"org.systemd.property.DeviceAllow": "x"},
    {"a": "b"},
    None,
    [],
    "x",
)
PROGRAMS = ("/x/nvidia-container-runtime-hook", "nvidia-container-toolkit", "/x/nvidia-container-cli", "/a/b", None, 3)


@pytest.fixture
def scene(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with enforcing(trusted_path, monkeypatch) as scene:
        yield scene


class Chance:
    """Random parts of a config.json."""

    def __init__(self, seed: int, top: Path) -> None:
        self._random = random.Random(seed)
        self._top = str(top)

    def of(self, *values: Any) -> Any:
        return copy.deepcopy(self._random.choice(values))

    def rule(self) -> Any:
        members = {
            "allow": self.of(True, True, True, False, None, "true"),
            "type": self.of("c", "b", "a", "u", "char", "p", "", None, 1, "\u017f"),
            "major": self.of(*NUMBERS),
            "minor": self.of(*NUMBERS),
            "access": self.of("rwm", "r", "w", "m", "", None, 1),
        }
        spelt = {self.of(*[name] * 12, name.title(), name.upper()): value for name, value in members.items()}
        return self.of(spelt, {name: value for name, value in spelt.items() if self.of(0, 1, 1, 1, 1)}, 3, None)

    def rules(self) -> Any:
        some = [self.rule() for _ in range(self.of(0, 1, 2, 3))]
        return self.of([*USUAL, *some], some, [{"allow": False, "access": "rwm"}, *some], None, {})

    def mount(self) -> Any:
        sources = (f"{self._top}/dev/gpu1", f"{self._top}/dev", "../../../dev/gpu1", "/", "none", "/dev/null", None, 1)
        mount = {
            "destination": "/x",
            "type": self.of("bind", "ext4", "overlay", "devtmpfs", "tmpfs", None, 1),
            "source": self.of(*sources),
            "options": self.of(["rbind"], ["bind"], [], [f"lowerdir={self._top}/dev"], None, "x"),
        }
        return self.of(mount, mount, mount, {**mount, "Source": f"{self._top}/dev/gpu1"}, None, 4)

    def config(self, base: Json) -> str:
        config: Json = copy.deepcopy(base)
        linux, process = config["linux"], config["process"]
        node = {"type": self.of("c", "b", "u", "p", None), "major": self.of(*NUMBERS), "minor": self.of(*NUMBERS)}
        hook = {"path": self.of(*PROGRAMS), "args": self.of(None, ["a"], ["nvidia-container-cli"], "x")}
        changes: list[Callable[[], None]] = [
            lambda: linux.update(devices=self.of([node], {}, [], None, "x")),
            lambda: linux.update(resources={"devices": self.rules()}),
            lambda: linux.update(resources=self.of(None, {}, [], {"devices": []})),
            lambda: linux.update(namespaces=self.of(*NAMESPACES)),
            lambda: linux.update(netDevices=self.of({"eth7": {}}, {}, None, [])),
            lambda: config.update(mounts=self.of([*base["mounts"], self.mount()], [self.mount()], None, {})),
            lambda: config.update(annotations=self.of(*ANNOTATIONS)),
            lambda: config.update(hooks=self.of({"prestart": [hook]}, {"prestart": hook}, {"prestart": None}, None)),
            lambda: process.update(env=self.of(["NVIDIA_VISIBLE_DEVICES=all"], ["CUDA_VERSION=1"], None, 3)),
            lambda: process.update(capabilities=self.of(*CAPABILITIES)),
        ]
        for change in self._random.choices(changes, k=self.of(1, 2, 3)):
            change()
        text = json.dumps(config)
        return str(self.of(text, text, text, text.replace("/", "\\/")))


def is_refused(refusal: CdiError | None, text: str) -> bool:
    assert not refusal or refusal.findings[0].id != "INTERNAL", f"{refusal}: {text}"
    return refusal is not None


@pytest.mark.parametrize("rounds", [400, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_the_launcher_notices_what_is_refused(scene: Scene, rounds: int) -> None:
    base, refused = scene.config, [0, 0]
    chance = Chance(rounds, scene.top)
    file = scene.top / "resources.json"
    for _ in range(rounds):
        scene.config = chance.config(base)
        if is_refused(scene.decide().refusal, scene.config):
            assert scene.launcher_notices(), scene.config
            refused[0] += 1
        rules = chance.rules()
        file.write_text(json.dumps(chance.of({"devices": rules}, {"devices": rules}, {"Devices": rules})))
        if is_refused(outcome(scene, file).refusal, file.read_text()):
            assert may_open(file.read_bytes()), file.read_text()
            refused[1] += 1
    assert min(refused) > rounds / 10, "the cases are near to what is refused"
