"""The scenes by name, in the order in which they are played."""

from demo.scenes import (
    admission,
    basic,
    elastic,
    kubelet,
    no_webhook,
    node_pools,
    open_source,
    ownership,
    professional,
    rollout,
    shared_card,
    split,
    teardown,
    too_wide,
    typing_error,
    unselected,
    usage,
    windows,
)

SCENES = {
    "basic": basic.SCENE,
    "professional": professional.SCENE,
    "node-pools": node_pools.SCENE,
    "teardown": teardown.SCENE,
    "shared-card": shared_card.SCENE,
    "usage": usage.SCENE,
    "open-source": open_source.SCENE,
    "unselected": unselected.SCENE,
    "too-wide": too_wide.SCENE,
    "admission": admission.SCENE,
    "no-webhook": no_webhook.SCENE,
    "typing-error": typing_error.SCENE,
    "ownership": ownership.SCENE,
    "kubelet": kubelet.SCENE,
    "rollout": rollout.SCENE,
    "windows": windows.SCENE,
    "split": split.SCENE,
    "elastic": elastic.SCENE,
}
ALONE = {"alone": no_webhook.ALONE}
"""Those of an installation without a webhook."""
