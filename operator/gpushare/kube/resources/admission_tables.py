"""Reads, writes and deletes the one GPUShareAdmissionTable."""

from gpushare import names
from gpushare.kube.client import ApiClient, Json

COLLECTION = f"apis/{names.API_VERSION}/{names.TABLE_PLURAL}"
PATH = f"{COLLECTION}/{names.TABLE_NAME}"


async def find_table(api: ApiClient) -> Json | None:
    """Read the table; None where there is none, or its kind is not served."""
    return await api.find(PATH)


async def write_table(api: ApiClient, found: Json | None, spec: Json) -> Json:
    """Create the table, or apply `spec` to the one that was `found`; return the result.

    Raises what a call may raise: a 404 where the kind is not served, or the table is gone again.
    """
    body: Json = {
        "apiVersion": names.API_VERSION,
        "kind": names.TABLE_KIND,
        "metadata": {"name": names.TABLE_NAME},
        "spec": spec,
    }
    if found is None:
        return await api.create(COLLECTION, body, fieldManager=names.FIELD_MANAGER)
    body["metadata"]["uid"] = found["metadata"]["uid"]
    return await api.apply(PATH, body)


async def delete_table(api: ApiClient) -> bool:
    """Delete the table; return whether there was one."""
    found = await find_table(api)
    if found is not None:
        await api.delete(PATH, uid=found["metadata"]["uid"])
    return found is not None
