"""The open-source scheduler extender, as current clusters take it."""

import yaml

from gpushare.render.opensource import render_scheduler_extender


def test_there_are_never_two_that_give_out_the_same_card() -> None:
    manifests = yaml.safe_load_all(render_scheduler_extender("registry.example.com/extender:v2"))
    (spec,) = (each["spec"] for each in manifests if each["kind"] == "Deployment")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
