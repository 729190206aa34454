"""``python -m bench.core.lists KUBECONFIG PATH...``: reads lists and prints nothing.

Only the standard library is imported: no program in Python that makes these calls answers sooner.
The kubeconfig is written as JSON, since the standard library reads no YAML.
"""

import json
import ssl
import sys
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit


def _main(kubeconfig: Path, *paths: str) -> None:
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
    tls.load_cert_chain(user["client-certificate"], user["client-key"])
    server = HTTPSConnection(urlsplit(cluster["server"]).netloc, context=tls)
    for path in paths:
        server.request("GET", path)
        json.load(server.getresponse())


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *sys.argv[2:])
