"""Cuts the objects that commands read to the fields that a snapshot keeps.

No Secret is read, and of ConfigMaps only those of unhealthy cards and of NVIDIA's device plugin. A
pod keeps its node selection and GPU requests, but no image (except gpushare's plugin), command or
volume (except host paths), and no variables except those for GPUs. DaemonSets keep the names of
their images, without registry and tag; the operator's own Deployments keep the variables that
decisions depend on. docs/cli.md lists the fields, generated from this package.
"""
