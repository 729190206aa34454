"""The operator's objects on a devcluster."""

from devcluster.installation import split_crds


def test_crds_are_told_from_the_rest_so_that_they_can_go_first() -> None:
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "c"}}
    role = {"kind": "ClusterRole", "metadata": {"name": "r"}}
    text = "kind: ClusterRole\nmetadata: {name: r}\n---\n# nothing\n---\n"
    text += "kind: CustomResourceDefinition\nmetadata: {name: c}\n"
    assert split_crds(text) == ([crd], [role])
