"""The configuration file: optional, strict about types, lenient about keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.cdi.findings import CdiError
from shim.create import settings


def test_without_a_file_everything_has_a_default(tmp_path: Path) -> None:
    found = settings.load(str(tmp_path / "missing.toml"))
    assert found.path == ""
    assert found.spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert found.annotation_prefixes == ("cdi.k8s.io/",)
    assert found.default_kind == "nvidia.com/gpu"


def test_what_the_file_says_counts(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[cdi]\nspec-dirs = ["/a", "/b"]\nannotation-prefixes = ["x/"]\ndefault-kind = "v.example/c"\n')
    found = settings.load(str(path))
    assert (found.path, found.spec_dirs, found.annotation_prefixes, found.default_kind) == (
        str(path),
        ("/a", "/b"),
        ("x/",),
        "v.example/c",
    )
    assert found.warnings == []


def test_a_key_that_means_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('top = 1\n[cdi]\nspec-dir = ["/a"]\n')
    found = settings.load(str(path))
    assert [(finding.id, finding.level) for finding in found.warnings] == [("SETTINGS_UNKNOWN_KEY", "WARNING")] * 2
    assert "top" in str(found.warnings[0])
    assert "cdi.spec-dir" in str(found.warnings[1])


BAD = {
    "no TOML": "cdi = [",
    "not UTF-8": b"a = '\xff'",
    "a table that is a text": 'cdi = "x"',
    "a list that is a text": '[cdi]\nspec-dirs = "/etc/cdi"',
    "a relative directory": '[cdi]\nspec-dirs = ["etc/cdi"]',
    "an empty prefix": '[cdi]\nannotation-prefixes = [""]',
    "a kind without a class": '[cdi]\ndefault-kind = "nvidia.com"',
    "a kind that is a number": "[cdi]\ndefault-kind = 3",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_meant_is_refused_with_the_path(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CdiError) as caught:
        settings.load(str(path))
    assert caught.value.findings[0].id == "SETTINGS"
    assert caught.value.findings[0].path == str(path)


def test_the_variable_wins() -> None:
    assert settings.find({b"SHIM_CONFIG": b"/x/y.toml"}) == "/x/y.toml"
    assert settings.find({}) == "/etc/shim/config.toml"


def test_root_does_not_look_into_a_user_directory(tmp_path: Path) -> None:
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "config.toml").touch()
    assert settings.find({b"XDG_CONFIG_HOME": bytes(tmp_path)}) == "/etc/shim/config.toml"
