"""What the simulated plugin loads of a ConfigMap's entry, and what the operator reads in it."""

from dataclasses import replace

import pytest

from devcluster import names
from devcluster.simulator.sharing import load_text
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.editions.plugin_config_map import read_entry
from tests.kit.values.nvidia_entries import ENTRIES, ONE, slices

REFUSED = {
    "sharing: ",
    "sharing: {mps: }",
    slices("[{name: nvidia.com/mig-1g.5gb, replicas: 4}]"),
    slices(f"[{{name: nvidia.com/gpu, replicas: 8}}, {ONE}]"),
    slices("[{name: nvidia.com/gpu, replicas: 4.0}]"),
    slices("[{name: nvidia.com/gpu, replicas: 4, devices: 1}]"),
    f"Sharing: {{TimeSlicing: {{resources: [{ONE}]}}}}",
    f"sharing: {{mps: , timeSlicing: {{resources: [{ONE}]}}}}",
}
"""The plugin loads these, and the operator asks for a plainer one."""


@pytest.mark.parametrize("text", ENTRIES)
def test_an_entry_is_loaded_by_the_simulated_plugin_as_by_nvidias(text: str) -> None:
    config = load_text(text)
    loaded = None if config.broken else (config.strategy, config.resource, config.replicas)

    assert loaded == ENTRIES[text]


@pytest.mark.parametrize("text", ENTRIES)
def test_the_operator_reads_in_an_entry_what_nvidias_plugin_loads_but_for_the_refused(
    text: str,
) -> None:
    entry, loaded = read_entry("key", text), ENTRIES[text]

    if loaded is None or text in REFUSED:
        assert (bool(entry.error), entry.config) == (True, None)
    else:
        strategy, resource, replicas = loaded
        assert entry.config is not None
        assert replace(entry.config, digest="") == NvidiaConfig(
            "key", SharingStrategy(strategy), replicas, resource == names.SHARED_CARD
        )
