"""`python -m gpushare`."""

from gpushare.cli.main import app

app()
