"""Client certificates of a node's components, signed by the cluster's CA, and their kubeconfigs."""

from pathlib import Path

import yaml

from devcluster.node.namespaces import run_command

_DAYS = 30


def write_kubeconfig(path: Path, *, pki: Path, server: str, user: str, group: str = "") -> Path:
    """Write a kubeconfig for `user`, in `group`, with a client certificate of the CA in `pki`."""
    key, certificate = path.with_suffix(".key"), path.with_suffix(".crt")
    subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    request = run_command(
        ["openssl", "req", "-new", *new_key, "-keyout", str(key), "-subj", subject]
    )
    authority = ("-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"), "-set_serial", "1")
    signed = ["openssl", "x509", "-req", *authority, "-days", str(_DAYS)]
    certificate.write_text(run_command(signed, stdin=request))
    cluster = {"server": server, "certificate-authority": str(pki / "ca.crt")}
    credentials = {"client-certificate": str(certificate), "client-key": str(key)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "node", "context": {"cluster": "cluster", "user": user}}],
        "current-context": "node",
    }
    path.write_text(yaml.safe_dump(kubeconfig))
    return path
