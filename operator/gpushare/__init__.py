"""gpushare-operator: GPU-sharing node pools for Alibaba Cloud ACK and open-source gpushare."""

__version__ = "0.1.0"
