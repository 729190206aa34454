"""Finds the version in which the API server has ResourceSlices and ResourceClaims, if any."""

from collections.abc import Mapping

from gpushare.api.k8s.dynamic_resources import DRA_DRIVER
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions of Kubernetes 1.34, 1.33 and 1.32; the fields that we read are equal in all."""
OF_DRIVER: Mapping[str, str] = {"fieldSelector": f"spec.driver={DRA_DRIVER}"}
"""Selects the ResourceSlices of NVIDIA's DRA driver; ResourceClaims have no such field."""


async def find_group_path(api: ApiClient) -> str | None:
    """Find the path of both kinds; None where the API server does not serve them or answers 403.

    Raises what a call may raise.
    """
    try:
        group = await api.find(f"apis/{GROUP}")
    except ApiError as error:
        if error.status != 403:
            raise
        return None
    served = {each.get("version") for each in (group or {}).get("versions") or ()}
    version = next((each for each in VERSIONS if each in served), None)
    return f"apis/{GROUP}/{version}" if version else None
