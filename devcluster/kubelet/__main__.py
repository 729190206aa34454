"""`python -m devcluster.kubelet --name NAME --folder FOLDER`."""

import argparse
import asyncio
import logging
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.kubelet.agent import Kubelet
from devcluster.kubelet.logs import serve_logs
from devcluster.kubelet.services import ServiceProxy
from devcluster.simulator.client import Client


async def serve(cluster: Cluster) -> None:
    """Play the nodes and the Services of a cluster for as long as it lasts."""
    # "@" is how Go writes the zero byte of an abstract socket.
    services = cluster.ports.services.replace("@", "\0", 1)
    kubelet = f"{services}-kubelet"
    await serve_logs(cluster, kubelet)
    client = Client(cluster.kubeconfig, user_agent="devcluster-kubelet")
    async with client, asyncio.TaskGroup() as tasks:
        tasks.create_task(Kubelet(client, cluster).run())
        tasks.create_task(ServiceProxy(client, services, kubelet=kubelet).run())


def main() -> None:
    """Parse the command line and run until the cluster's end."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.kubelet", description=__doc__)
    parser.add_argument("--name", required=True, help="of the cluster")
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve(Cluster(arguments.name, arguments.folder)))


if __name__ == "__main__":
    main()
