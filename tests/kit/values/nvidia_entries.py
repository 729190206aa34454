"""Entries of a ConfigMap, and what NVIDIA's device plugin loads of each.

tests/node/test_nvidia_entries.py asks the plugin itself.
"""

from devcluster import names

Loaded = tuple[str, str, int] | None
"""Strategy, resource and replicas; None where the plugin ends with an error."""
ONE = "{name: nvidia.com/gpu, replicas: 4}"
FOUR = ("time-slicing", names.WHOLE_CARD, 4)
WHOLE = ("none", names.WHOLE_CARD, 1)


def slices(resources: str = f"[{ONE}]", more: str = "") -> str:
    return f"sharing: {{timeSlicing: {{{more}resources: {resources}}}}}"


ENTRIES: dict[str, Loaded] = {
    "": WHOLE,
    "version: v1": WHOLE,
    "version: v2": None,
    "version: 1": None,
    "text": None,
    "[]": None,
    "a: [": None,
    "unknown: 1": WHOLE,
    "sharing: ": WHOLE,
    "sharing: []": None,
    "sharing: {timeSlicing: }": None,
    "sharing: {timeSlicing: {}}": None,
    "sharing: {mps: }": WHOLE,
    "sharing: {mps: {}}": None,
    slices(): FOUR,
    slices("[]"): None,
    slices("[{name: gpu, replicas: 4}]"): FOUR,
    slices("[{name: example.com/gpu, replicas: 4}]"): None,
    slices("[{name: nvidia.com/mig-1g.5gb, replicas: 4}]"): WHOLE,
    slices(f"[{{name: nvidia.com/gpu, replicas: 8}}, {ONE}]"): ("time-slicing", FOUR[1], 8),
    slices("[{name: nvidia.com/gpu}]"): None,
    slices("[{replicas: 4}]"): None,
    slices("[{name: nvidia.com/gpu, replicas: 1}]"): None,
    slices("[{name: nvidia.com/gpu, replicas: '4'}]"): None,
    slices("[{name: nvidia.com/gpu, replicas: 4.5}]"): None,
    slices("[{name: nvidia.com/gpu, replicas: 4.0}]"): FOUR,
    slices("[{name: nvidia.com/gpu, replicas: 4, devices: 1}]"): FOUR,
    slices("[{name: nvidia.com/gpu, replicas: 4, devices: some}]"): None,
    slices("[{name: nvidia.com/gpu, replicas: 4, rename: nvidia.com/own}]"): FOUR,
    slices(more="renameByDefault: true, "): ("time-slicing", names.SHARED_CARD, 4),
    slices(more="renameByDefault: 'yes', "): None,
    f"Sharing: {{TimeSlicing: {{resources: [{ONE}]}}}}": FOUR,
    f"sharing: {{mps: , timeSlicing: {{resources: [{ONE}]}}}}": FOUR,
    f"sharing: {{mps: {{resources: [{ONE}]}}}}": ("mps", names.WHOLE_CARD, 4),
    f"sharing: {{mps: {{resources: [{ONE}]}}, timeSlicing: {{}}}}": None,
}
