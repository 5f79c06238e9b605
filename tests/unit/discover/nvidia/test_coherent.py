"""GPUs apart by whether they share the processor's page tables."""

from __future__ import annotations

from shim.discover import vendors
from shim.discover.edits import Edits
from shim.discover.model import Discovery, Draft, DraftDevice, Wish
from shim.discover.nvidia import coherent
from shim.discover.nvidia.devices import Part
from shim.discover.nvidia.snapshot import Gpu, Mig


def part(index: int, mode: str, mig: Mig | None = None) -> Part:
    name = f"{index}:{mig.index}" if mig else str(index)
    return Part(Gpu(index, addressing_mode=mode), mig, DraftDevice((name,), Edits(env={"N": name})))


PARTS = [part(0, "ats"), part(1, "hmm"), part(2, "none"), part(3, "ats", Mig(0)), part(4, "")]


def split(parts: list[Part], wish: Wish) -> tuple[dict[str, list[str]], list[str]]:
    usual = Draft("nvidia.com/gpu", Edits(env={"A": "1"}), tuple(part.draft for part in parts if part.draft))
    drafts, findings = coherent.split(usual, wish, parts)
    documents = vendors.documents(Discovery("nvidia", (usual, *drafts)), wish)
    assert all(document["containerEdits"] == {"env": ["A=1"]} for _, document in documents)
    assert all(document["kind"].endswith(suffix) for suffix, document in documents)
    names = {document["kind"]: [device["name"] for device in document["devices"]] for _, document in documents}
    return names, [finding.text for finding in findings]


def test_each_gpu_is_in_the_usual_spec_and_in_that_of_its_mode() -> None:
    names, texts = split(PARTS, Wish("/x"))
    assert names == {
        "nvidia.com/gpu": ["0", "1", "2", "3:0", "4", "all"],
        "nvidia.com/gpu.coherent": ["0", "all"],
        "nvidia.com/gpu.noncoherent": ["1", "2", "all"],
    }
    assert texts == ["GPU 4 is in neither coherent nor noncoherent: NVML does not tell its addressing mode"]


def test_a_mode_that_no_gpu_has_gets_no_spec_and_the_class_counts() -> None:
    names, _ = split([part(0, "ats")], Wish("/x", kind="acme.example/x"))
    assert names == {"acme.example/x": ["0", "all"], "acme.example/x.coherent": ["0", "all"]}


def test_a_device_that_is_asked_for_need_not_be_in_each_spec() -> None:
    names, _ = split(PARTS, Wish("/x", devices=("1",)))
    assert names == {"nvidia.com/gpu": ["1", "all"], "nvidia.com/gpu.noncoherent": ["1", "all"]}
