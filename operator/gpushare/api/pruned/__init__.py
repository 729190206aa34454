"""The fields that are kept of each object that commands read, and no others.

No Secret is read, and of ConfigMaps only what tells of unhealthy cards is kept. Of a pod stays
where it may run and what it asks of GPUs: no image, command, volume, nor any variable but the two
that concern GPUs. Of a DaemonSet's images stay the names, without registry and tag; of the
operator's own Deployments the variables that decisions depend on. docs/cli.md lists the fields,
from here.
"""
