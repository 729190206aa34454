"""`python -m gpushare`."""

from gpushare.cli.entrypoint import gpushare

gpushare()
