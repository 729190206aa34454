"""What a container's environment says about GPUs."""

from dataclasses import dataclass

from gpushare import names
from gpushare.api.podshape import Container

_ON = ("true", "1")
"""Values of CGPU_DISABLE that count (vendor's guide on cGPU)."""
_NO_DEVICES = ("none", "void", "")
"""Values of NVIDIA_VISIBLE_DEVICES that give no card (NVIDIA Container Toolkit)."""
_FROM_ELSEWHERE = "?"
"""Of a variable that is read from somewhere: it may be anything."""
_REFERENCE = "$("
"""Begins a reference to another variable, which the kubelet resolves."""


@dataclass(frozen=True, slots=True)
class GpuEnvironment:
    """Of two variables of one name the last counts."""

    disables_isolation: bool = False
    """CGPU_DISABLE turns isolation off."""
    may_disable_isolation: bool = False
    """It does, or its value is only known when the container starts."""
    names_cards: bool = False
    """NVIDIA_VISIBLE_DEVICES says which cards it sees, whatever it is given."""
    means_gpu: bool = False
    """It sets one of both, and not to say that it wants no card."""


NO_GPU_ENVIRONMENT = GpuEnvironment()


def read_gpu_environment(container: Container) -> GpuEnvironment:
    """The GpuEnvironment of a container."""
    values: dict[str, str] = {}
    for variable in container.env or ():
        if variable.name in names.GPU_ENVIRONMENT:
            elsewhere = _FROM_ELSEWHERE if variable.value_from else ""
            values[variable.name] = variable.value or elsewhere
    if not values:
        return NO_GPU_ENVIRONMENT
    disables = values.get(names.ENV_CGPU_DISABLE, "")
    return GpuEnvironment(
        disables_isolation=disables in _ON,
        may_disable_isolation=disables in (*_ON, _FROM_ELSEWHERE) or _REFERENCE in disables,
        names_cards=values.get(names.ENV_VISIBLE_DEVICES, "") not in _NO_DEVICES,
        means_gpu=any(value not in _NO_DEVICES for value in values.values()),
    )
