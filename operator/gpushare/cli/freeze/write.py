"""Writes and ends freezes."""

from datetime import UTC, datetime
from urllib.parse import quote

from pydantic import ValidationError

from gpushare import names
from gpushare.analysis.program_name import name_command
from gpushare.api.windows import Freeze
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.deployments import find_namespace, list_deployments
from gpushare.cli.cluster.writes import POOL_RIGHTS, naming_rights, send
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import Answer, build_messages
from gpushare.kube.client import MERGE_PATCH, ApiClient, Json
from gpushare.kube.errors import ApiError
from gpushare.kube.resources.pools import PATH as POOLS


async def freeze_all(
    access: Access, namespace: str | None, reason: str, until: datetime | None
) -> Answer:
    """Freeze all pools. Raises `CommandError`, and what `errors_as_sentences` knows."""
    data = _build_freeze(reason, until)
    async with await access.connect() as api:
        place = namespace or await find_namespace(api)
        is_elsewhere = await list_deployments(api, place) == ()
        with naming_rights(_name_rights(place)):
            await _apply_freeze(api, place, data)
    command = name_command("unfreeze --all")
    told = f"All pools are frozen{_tell_until(until)}. To end that, run: {command}"
    if is_elsewhere:
        told = (
            f"ConfigMap {names.FREEZE_CONFIGMAP} is in namespace {place}, which has no Deployment "
            "of the operator. It has no effect if the operator runs in another namespace: use -n"
        )
    return _answer(f"configmap/{names.FREEZE_CONFIGMAP}", told, data, namespace=place)


async def freeze_pool(access: Access, name: str, reason: str, until: datetime | None) -> Answer:
    """Freeze this pool. Raises `CommandError`, and what `errors_as_sentences` knows."""
    data = _build_freeze(reason, until)
    async with await access.connect() as api:
        # A merge: an end that was there goes.
        await _patch_pool(api, name, {"until": None} | data)
    command = name_command(f"unfreeze {name}")
    told = f"Pool {name} is frozen{_tell_until(until)}. To end that, run: {command}"
    return _answer(f"pool/{name}", told, data)


async def unfreeze_all(access: Access, namespace: str | None) -> Answer:
    """End the freeze of all pools. Raises `CommandError`, and what `errors_as_sentences` knows."""
    async with await access.connect() as api:
        place = namespace or await find_namespace(api)
        path = f"{_list_path(place)}/{names.FREEZE_CONFIGMAP}"
        with naming_rights(_name_rights(place)):
            found = await api.find(path)
            if found is None:
                message = f"there is no ConfigMap {names.FREEZE_CONFIGMAP} in namespace {place}"
                raise CommandError(Exit.NOT_CALLED_FOR, f"nothing was written: {message}")
            await send(api.delete(path, uid=found["metadata"]["uid"]))
    told = "The freeze of all pools is over"
    return _answer(f"configmap/{names.FREEZE_CONFIGMAP}", told, None, namespace=place)


async def unfreeze_pool(access: Access, name: str) -> Answer:
    """End this pool's freeze. Raises `CommandError`, and what `errors_as_sentences` knows."""
    async with await access.connect() as api:
        with naming_rights(POOL_RIGHTS):
            found = await api.find(f"{POOLS}/{quote(name, safe='')}")
        if found is not None and not _is_frozen(found):
            message = f"nothing was written: pool {name} has no spec.rollout.freeze"
            raise CommandError(Exit.NOT_CALLED_FOR, message)
        await _patch_pool(api, name, None)
    return _answer(f"pool/{name}", f"The freeze of pool {name} is over", None)


def _is_frozen(pool: Json) -> bool:
    """Return whether a pool as it is stored, by an older CRD perhaps, has a freeze of its own."""
    match pool:
        case {"spec": {"rollout": {"freeze": freeze}}}:
            return bool(freeze)
    return False


async def _apply_freeze(api: ApiClient, namespace: str, data: Json) -> None:
    path = _list_path(namespace)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.FREEZE_CONFIGMAP},
        "data": data,
    }
    try:
        await send(api.create(path, body, fieldManager=names.COMMAND_MANAGER))
    except ApiError as error:
        if error.is_not_found:
            message = f"nothing was written: there is no namespace {namespace}"
            raise CommandError(Exit.NOT_FOUND, message) from error
        if not error.is_conflict:
            raise
        await _patch(api, f"{path}/{names.FREEZE_CONFIGMAP}", {"data": {"until": None} | data})


async def _patch_pool(api: ApiClient, name: str, freeze: Json | None) -> None:
    path = f"{POOLS}/{quote(name, safe='')}"
    with naming_rights(POOL_RIGHTS):
        await _patch(api, path, {"spec": {"rollout": {"freeze": freeze}}})


async def _patch(api: ApiClient, path: str, body: Json) -> None:
    try:
        await send(
            api.patch(path, body, content_type=MERGE_PATCH, fieldManager=names.COMMAND_MANAGER)
        )
    except ApiError as error:
        if not error.is_not_found:
            raise
        message = f"nothing was written: {path.rpartition('/')[2]} was not found"
        raise CommandError(Exit.NOT_FOUND, message) from error


def _name_rights(namespace: str) -> str:
    return f"get, create, patch and delete on configmaps in namespace {namespace}"


def _list_path(namespace: str) -> str:
    return f"api/v1/namespaces/{quote(namespace, safe='')}/configmaps"


def _build_freeze(reason: str, until: datetime | None) -> Json:
    if until is not None and until <= datetime.now(UTC):
        raise CommandError(Exit.USAGE, f"--until {until.isoformat()} is in the past")
    try:
        freeze = Freeze(reason=reason, until=until)
    except ValidationError as error:
        message = f"--reason is invalid: {error.errors()[0]['msg']}"
        raise CommandError(Exit.USAGE, message) from error
    return freeze.model_dump(mode="json", exclude_none=True)


def _tell_until(until: datetime | None) -> str:
    return f" until {until.isoformat(timespec='minutes')}" if until is not None else ""


def _answer(target: str, message: str, freeze: Json | None, *, namespace: str = "") -> Answer:
    document = {
        "object": target,
        "namespace": namespace,
        "freeze": freeze,
        "fieldManager": names.COMMAND_MANAGER,
        "messages": [message],
    }
    return Answer(document, build_messages)
