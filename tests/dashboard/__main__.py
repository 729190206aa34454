"""`python -m tests.dashboard FOLDER`: pictures of the dashboard of pools, by a real Prometheus.

A story is played on a control plane of its own while Prometheus reads the operator. Then each
panel's own query is asked, and the answers are drawn about as Grafana would, to
dashboard-light.svg and dashboard-dark.svg.
"""

import time
from pathlib import Path
from typing import Annotated

import typer

from tests.bench.session import own_cluster, run, say
from tests.dashboard.answers import Window, ask
from tests.dashboard.drawing import draw_dashboard, write_picture
from tests.dashboard.look import LOOKS
from tests.dashboard.panels import list_shown, parse_panel
from tests.dashboard.story import SETTINGS, VALUES, play
from tests.kit.bench import Bench
from tests.kit.dashboards import FILES, read
from tests.kit.prometheus import prometheus

DASHBOARD = "gpu-pools"
_STEP_SECONDS = 2

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(folder: Annotated[Path, typer.Argument(help="Where the pictures go.")]) -> None:
    """Play, ask, draw."""
    (page,) = (read(file) for file in FILES if file.stem == DASHBOARD)
    panels = [parse_panel(panel) for panel in page["panels"]]
    with own_cluster("dashboard-figures") as cluster:
        bench = Bench(cluster)
        bench.operators.installation.values = VALUES
        bench.operators.installation.apply()
        operator = bench.operators.start("run", env=SETTINGS)
        with prometheus(cluster, operator.metrics_port) as source:
            say("Prometheus reads the operator; the story begins")
            start = int(time.time())
            play(bench)
            window = Window(start, int(time.time()), _STEP_SECONDS)
            say(f"played in {window.end - window.start} s; asking {len(panels)} panels")
            answers = ask(source, panels, window)
    folder.mkdir(parents=True, exist_ok=True)
    in_picture = list_shown(panels)
    shown = [answer for answer in answers if answer.panel in in_picture]
    for name, look in LOOKS.items():
        path = folder / f"dashboard-{name}.svg"
        write_picture(draw_dashboard(page["title"], shown, window, look), path)
        say(f"drawn: {path}")


if __name__ == "__main__":
    run(app)
