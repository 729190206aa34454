"""Reads how to authenticate to Prometheus, from a file as `promtool --http.config.file` takes it.

See "http_config" in Prometheus' documentation on its configuration; of that, the parts here are
known, and any other is an error.
"""

import ssl
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from gpushare.api.documents import parse_settings
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.kube.auth.credentials import build_client_tls, load_pair


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BasicAuth(_Part):
    """A user and a password."""

    username: str = ""
    username_file: str = ""
    password: str = ""
    password_file: str = ""


class Authorization(_Part):
    """The header `Authorization`."""

    type: str = "Bearer"
    credentials: str = ""
    credentials_file: str = ""


class TlsConfig(_Part):
    """Whom to trust, and what to show."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False


class HeaderValues(_Part):
    """Values of a header, such as the tenant's."""

    values: Sequence[str] = ()
    secrets: Sequence[str] = ()
    files: Sequence[str] = ()


class HttpConfig(_Part):
    """How to call Prometheus. Paths are relative to the folder of the file."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: TlsConfig = TlsConfig()
    http_headers: dict[str, HeaderValues] = {}
    proxy_url: str = ""

    def build_headers(self, folder: Path) -> list[tuple[str, str]]:
        """Build the headers of each call. Raises OSError for a file that can't be read, ValueError
        for a value of several lines."""
        found = []
        if self.basic_auth is not None and self.authorization is not None:
            raise ValueError("basic_auth and authorization are both the header Authorization")
        if (basic := self.basic_auth) is not None:
            user = basic.username or _read(folder, basic.username_file)
            secret = basic.password or _read(folder, basic.password_file)
            found.append(
                ("Authorization", f"Basic {b64encode(f'{user}:{secret}'.encode()).decode()}")
            )
        if (given := self.authorization) is not None:
            secret = given.credentials or _read(folder, given.credentials_file)
            found.append(("Authorization", f"{given.type} {secret}"))
        for name, header in self.http_headers.items():
            of_files = [_read(folder, each) for each in header.files]
            found += [(name, each) for each in (*header.values, *header.secrets, *of_files)]
        for name, value in found:
            if not (name + value).isprintable():
                raise ValueError(f"the header {name!r} has characters that no header may have")
        return found

    def build_tls(self, folder: Path) -> ssl.SSLContext:
        """Build the context of connections by TLS. Raises OSError for a file that can't be read,
        ValueError for one that does not hold what it should."""
        given = self.tls_config
        authorities = (folder / given.ca_file).read_bytes() if given.ca_file else None
        context = build_client_tls(authorities, verify=not given.insecure_skip_verify)
        if given.cert_file:
            key = folder / (given.key_file or given.cert_file)
            load_pair(context, (folder / given.cert_file).read_bytes(), key.read_bytes())
        return context


def read_http_config(path: Path) -> HttpConfig:
    """Read the file. Raises `CommandError` for one that is not such a file, OSError for one that
    can't be read."""
    try:
        return HttpConfig.model_validate(parse_settings(path.read_text()) or {})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        why = f"{where}: {first['msg']}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = str(error)
    raise build_invalid(path, why)


def build_invalid(path: Path, why: str) -> CommandError:
    """Build the error for a file with a part that is not as it should be."""
    message = f"{path} is no HTTP configuration of Prometheus ({why}). docs/usage.md shows one"
    return CommandError(Exit.USAGE, message)


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text().strip() if name else ""
