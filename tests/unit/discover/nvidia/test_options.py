"""What all modes share: features that do not exist are refused, roots are apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.discover import nvidia
from shim.discover.model import Wish
from shim.discover.nvidia import options
from shim.host.host import Host


def test_an_unknown_feature_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    wish = Wish("/x", mode="gdrcopy", features=frozenset({"enable-coherent-annotation"}))
    with pytest.raises(CdiError) as caught:
        nvidia.discover(Host(str(tmp_path)), wish)
    [finding] = caught.value.findings
    assert finding.id == "DISCOVERY_WISH"
    assert "--feature-flag enable-coherent-annotation" in finding.text
    assert "there are: enable-coherent-annotations" in finding.text


@pytest.mark.parametrize("name", sorted(options.FEATURES))
def test_known_features_are_taken(name: str) -> None:
    options.check_features(Wish("/x", features=frozenset({name})))


@pytest.mark.parametrize(
    ("wish", "has_gids"), [(Wish("/x"), True), (Wish("/x", features=frozenset({options.NO_GIDS})), False)]
)
def test_groups_of_nodes_can_be_left_out(wish: Wish, has_gids: bool) -> None:
    assert options.common_edits(wish).has_gids is has_gids
    assert options.common_edits(wish).env == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_nodes_lie_in_the_drivers_root_unless_their_own_is_given(tmp_path: Path) -> None:
    for directory in ("driver", "nodes"):
        (tmp_path / directory).mkdir()
    host = Host(str(tmp_path))
    wish = Wish("/x", driver_root="/driver")
    assert options.driver_tree(host, wish).root == options.device_tree(host, wish).root == "/driver"
    assert options.device_tree(host, Wish("/x", driver_root="/driver", dev_root="/nodes")).root == "/nodes"


def test_a_mode_may_be_in_capital_letters(tmp_path: Path) -> None:
    [finding] = nvidia.discover(Host(str(tmp_path)), Wish("/x", mode="GDRCopy")).findings
    assert "/dev/gdrdrv" in finding.text


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=r"--mode cuda: NVIDIA has no such mode .*imex") as caught:
        nvidia.discover(Host(str(tmp_path)), Wish("/x", mode="cuda"))
    assert caught.value.findings[0].id == "DISCOVERY_WISH"
