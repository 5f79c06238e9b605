"""The configuration file of NVIDIA's device plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.host.host import Host
from shim.node import vendor_config
from shim.node.labels.request import request
from shim.node.labels.sharing import Sharing
from shim.node.vendor_config import VendorConfig, parse

SHARED = "sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: {}\n"


def config(text: str) -> VendorConfig:
    return parse(text.encode(), "/c.yaml")


def sharing(text: str) -> Sharing:
    read = config(text).sharing
    assert read is not None
    return read


def fault(text: str) -> str:
    with pytest.raises(CdiError) as error:
        config(text)
    assert {finding.id for finding in error.value.findings} == {"VENDOR_CONFIG"}
    return str(error.value)


def test_flags_and_sharing_are_read() -> None:
    read = config(
        "version: v1\nflags:\n  migStrategy: mixed\n  failOnInitError: false\n  deviceDiscoveryStrategy: nvml\n"
        "  gfd: {noTimestamp: true, machineTypeFile: /m, outputFile: /o, sleepInterval: 1m30s}\n" + SHARED.format(4)
    )
    assert (read.mig_strategy, read.source, read.machine_file, read.output) == ("mixed", "nvml", "/m", "/o")
    assert (read.fail_on_init_error, read.no_timestamp, read.interval) == (False, True, 90.0)
    assert read.sharing is not None
    assert read.sharing.of("nvidia.com/gpu") == ("time-slicing", 4)
    assert read.sharing.of("nvidia.com/mig-1g.5gb") == ("none", 1)
    assert read.sharing.mark("nvidia.com/gpu") == "-SHARED"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "flags:\n", "flags: {unknown: 1}\nother: [2]\n", '{"version":"v1"}']
)
def test_an_empty_or_unknown_part_asks_for_nothing(text: str) -> None:
    assert config(text) == VendorConfig()


def test_letters_of_a_flag_may_be_small_or_capital() -> None:
    assert config("Flags: {MIGSTRATEGY: single}").mig_strategy == "single"


def test_mps_goes_before_time_slicing_and_the_first_of_equal_resources_counts() -> None:
    both = SHARED.format(4) + SHARED.format(7).replace("sharing:\n", "").replace("timeSlicing", "mps")
    assert sharing(both).of("nvidia.com/gpu") == ("mps", 7)
    twice = SHARED.format(4) + "    - {name: gpu, replicas: 9}\n"
    assert sharing(twice).of("nvidia.com/gpu") == ("time-slicing", 4)


def test_a_resource_of_another_name_has_no_mark() -> None:
    text = SHARED.format(4).replace("    resources", "    renameByDefault: true\n    resources")
    assert sharing(text).mark("nvidia.com/gpu") == ""


@pytest.mark.parametrize("extra", ["rename: nvidia.com/own", "devices: [0, '1:0', GPU-x]", "devices: 1"])
def test_what_has_no_effect_is_reported(extra: str) -> None:
    read = config(SHARED.format(4) + f"      {extra}\n")
    assert [(finding.level, finding.line) for finding in read.findings] == [("WARNING", 6)]
    assert config(SHARED.format(4) + "      devices: all\n").findings == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: v2", "/c.yaml:1: version: the version 'v2' is not known"),
        ("version: [v1", "/c.yaml:"),
        ("[]", "it is no mapping"),
        ("flags: {migStrategy: 1}", "flags.migStrategy: 1 is no text"),
        ("flags: {failOnInitError: 'no'}", "flags.failOnInitError: 'no' is no switch"),
        ("flags: {gfd: {sleepInterval: soon}}", "'soon' is no duration"),
        ("sharing: {timeSlicing: {}}", "sharing.timeSlicing: no resources are named"),
        ("sharing: {timeSlicing: {resources: 1}}", "it is no list"),
        ("sharing: {mps: {resources: [{replicas: 2}]}}", "`name` is missing"),
        ("sharing: {mps: {resources: [{name: gpu}]}}", "`replicas` is missing"),
        (SHARED.format(1), "/c.yaml:5: sharing.timeSlicing.resources.0.replicas: 1 is too few"),
        (SHARED.format("'4'"), "'4' is no whole number"),
        (SHARED.format(4.5), "4.5 is no whole number"),
        (SHARED.format("4\n      devices: some"), "'some' is neither"),
        (SHARED.format("4\n      devices: 0"), "0 is too few devices"),
        (SHARED.format("4\n      devices: [x]"), "'x' is no index"),
        (SHARED.format("4\n      rename: A_B"), "'A_B' is no name of a resource"),
        ("flags: {}\nflags: {}", "/c.yaml:2:"),
    ],
)
def test_a_fault_has_its_line_key_and_value(text: str, told: str) -> None:
    assert told in fault(text)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert sharing(SHARED.format("4.0")).replicas == {"nvidia.com/gpu": 4}


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match="/not-there"):
        vendor_config.read(Host(str(tmp_path)), "/not-there")
    (tmp_path / "c").write_text("flags: {migStrategy: single}")
    assert vendor_config.read(Host(str(tmp_path)), "/c").mig_strategy == "single"


def test_an_option_goes_before_the_file() -> None:
    given = VendorConfig(mig_strategy="mixed", fail_on_init_error=False, no_timestamp=True, machine_file="/m")
    asked = request(given)
    assert (asked.mig_strategy, asked.may_lack_driver, asked.has_timestamp) == ("mixed", True, False)
    asked = request(given, mig_strategy="single", may_lack_driver=False, has_timestamp=True, machine_file="/n")
    assert (asked.mig_strategy, asked.may_lack_driver, asked.has_timestamp) == ("single", False, True)
    assert asked.machine_file == "/n"
    assert request(VendorConfig()).mig_strategy == "none"


def test_sharing_of_the_file_goes_before_that_of_the_device_plugin() -> None:
    ours = Sharing("time-slicing", {"nvidia.com/gpu": 3})
    assert request(config(SHARED.format(4)), sharing=ours).sharing.of("nvidia.com/gpu") == ("time-slicing", 4)
    assert request(VendorConfig(), sharing=ours).sharing is ours


def test_a_word_of_the_file_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CdiError, match=r"flags\.migStrategy: 'all' does not exist \(there are: none, single, mixed\)"):
        request(VendorConfig(mig_strategy="all"))
