"""`python -m gpushare`."""

from gpushare.cli.main import gpushare

gpushare()
