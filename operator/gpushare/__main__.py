"""`python -m gpushare`."""

from gpushare.cli.start import gpushare

gpushare()
