"""`python -m devcluster.processnode --name NAME --folder FOLDER`."""

import argparse
import asyncio
import logging
from pathlib import Path

from devcluster.client import Client
from devcluster.cluster import Cluster
from devcluster.processnode.agent import NodeAgent
from devcluster.processnode.logs import serve_logs
from devcluster.processnode.services import ServiceProxy


async def serve(cluster: Cluster) -> None:
    """Play the nodes and the Services of a cluster for as long as it lasts."""
    # "@" is how Go writes the zero byte of an abstract socket.
    services = cluster.ports.services.replace("@", "\0", 1)
    kubelet = f"{services}-kubelet"
    await serve_logs(cluster, kubelet)
    client = Client(cluster.kubeconfig, user_agent="devcluster-processnode")
    async with client, asyncio.TaskGroup() as tasks:
        tasks.create_task(NodeAgent(client, cluster).run())
        tasks.create_task(ServiceProxy(client, services, kubelet=kubelet).run())


def main() -> None:
    """Parse the command line and run until the cluster's end."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.processnode", description=__doc__)
    parser.add_argument("--name", required=True, help="of the cluster")
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve(Cluster(arguments.name, arguments.folder)))


if __name__ == "__main__":
    main()
