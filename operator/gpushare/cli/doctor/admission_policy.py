"""Reads the admission policy and its table."""

import asyncio
import time

from gpushare import names
from gpushare.analysis.doctor.admission_policy import AdmissionPolicy
from gpushare.cli.cluster.partial_read import see
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.kube.client import ApiClient, list_pages
from gpushare.kube.errors import ApiError
from gpushare.kube.resources import pools
from gpushare.kube.resources.admission_tables import find_table

_REGISTRATION = "apis/admissionregistration.k8s.io/v1"
POLICY_PATH = f"{_REGISTRATION}/mutatingadmissionpolicies/{names.ADMISSION_POLICY}"
BINDING_PATH = f"{_REGISTRATION}/mutatingadmissionpolicybindings/{names.ADMISSION_POLICY}"
PATIENCE_SECONDS = 5.0
"""A controller writes the table within two seconds of a change of the pools."""
_LOOK_SECONDS = 0.5


async def read_admission_policy(api: ApiClient, *, is_wanted: bool) -> AdmissionPolicy:
    """Read them; again for a while where the table does not show the pools, which may have
    changed just now."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found = await _read(api, is_wanted)
    while found.is_behind and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)
        found = await _read(api, is_wanted)
    return found


async def _read(api: ApiClient, is_wanted: bool) -> AdmissionPolicy:
    return AdmissionPolicy(
        is_wanted=is_wanted,
        policy=await see(api.find(POLICY_PATH)),
        binding=await see(api.find(BINDING_PATH)),
        table=await see(find_table(api)),
        pools=await see(_list_views(api)),
    )


async def _list_views(api: ApiClient) -> tuple[PoolView, ...]:
    try:
        raw = [item async for page in list_pages(api, pools.PATH) for item in page.items]
    except ApiError as error:
        if not error.is_not_found:
            raise
        # Without their CRD, of which another finding tells.
        return ()
    return tuple(view for view in map(view_pool, raw) if view is not None)
