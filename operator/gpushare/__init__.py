"""gpushare-operator: GPU-sharing node pools for ACK, open-source gpushare and NVIDIA's plugin."""

__version__ = "0.1.0"
