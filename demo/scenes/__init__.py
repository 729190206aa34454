"""The scenes, in the order in which they are played."""

from demo.scenes import (
    admission,
    basic,
    node_pools,
    open_source,
    ownership,
    professional,
    rollout,
    shared_card,
    unselected,
)

SCENES = (
    basic.SCENE,
    professional.SCENE,
    node_pools.SCENE,
    shared_card.SCENE,
    open_source.SCENE,
    unselected.SCENE,
    admission.SCENE,
    ownership.SCENE,
    rollout.SCENE,
)
