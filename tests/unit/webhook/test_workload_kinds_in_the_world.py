"""What users of such kinds reported publicly, each turned into a small object."""

from tests.kit.values.manifests import Json
from tests.unit.webhook.test_workload_warnings import build_ray_cluster, build_template, warn

GPU: Json = {"limits": {"aliyun.com/gpu-mem": "8"}}
WORKFLOWS = {"group": "argoproj.io", "resource": "workflows"}


def test_a_selector_beside_the_template_of_a_worker_group_is_not_taken_for_the_pods() -> None:
    # ray-project/ray#50298: nothing said that such a nodeSelector selects no node.
    workload = build_ray_cluster(build_template(8))
    workload["spec"]["workerGroupSpecs"][0]["nodeSelector"] = {"gpushare.io/pool": "inference"}
    assert warn(workload)[0] == (
        "Pods of workerGroupSpecs[group-0] will be assigned to pool training (cgpu)"
    )


def test_a_selector_in_the_template_of_a_worker_group_is_that_of_its_pods() -> None:
    selecting = build_template(8, nodeSelector={"gpushare.io/pool": "elsewhere"})
    (warning,) = warn(build_ray_cluster(selecting))
    assert warning.startswith("workerGroupSpecs[group-0]: ")
    assert "no pool has such nodes" in warning


def test_a_step_whose_resources_a_patch_sets_from_parameters_is_not_known() -> None:
    # argoproj/argo-workflows#2412: the patch is the only way to set resources by parameters.
    patch = '{"containers":[{"name":"main","resources":{"limits":{"aliyun.com/gpu-mem":"{{m}}"}}}]}'
    steps: list[Json] = [
        {"name": "all", "steps": [[{"name": "one", "template": "general"}]]},
        {"name": "general", "podSpecPatch": patch, "container": {"image": "trainer"}},
    ]
    assert warn({"spec": {"templates": steps}}, **WORKFLOWS) == [
        "Pods of templates[general].podSpecPatch are not known here: it changes them in ways that "
        "are not read"
    ]


def test_a_step_whose_request_is_a_parameter_is_not_known() -> None:
    # argoproj/argo-workflows#3058
    limits = {"aliyun.com/gpu-mem": "{{workflow.parameters.memory}}"}
    steps = [{"name": "main", "container": {"resources": {"limits": limits}}}]
    (warning,) = warn({"spec": {"templates": steps}}, **WORKFLOWS)
    assert warning.startswith("Pods of templates[main] are not known here: ")


def test_a_predictor_of_a_named_framework_is_read_with_the_selector_beside_it() -> None:
    # kserve/kserve#1433: nodeSelector of the predictor, resources of its server.
    predictor = {
        "nodeSelector": {"gpushare.io/pool": "training"},
        "triton": {"resources": GPU, "storageUri": "gs://models/"},
    }
    services = {"group": "serving.kserve.io", "resource": "inferenceservices"}
    assert warn({"spec": {"predictor": predictor}}, **services) == []
    predictor["nodeSelector"] = {"gpushare.io/pool": "v100"}
    (warning,) = warn({"spec": {"predictor": predictor}}, **services)
    assert warning.startswith("predictor: ")
    assert "no pool has such nodes" in warning


def test_what_a_runtime_adds_to_the_resources_of_a_job_is_not_guessed() -> None:
    # kubeflow/trainer#2650: the resources of the job reach only some of the runtime's pods.
    spec = {
        "runtimeRef": {"name": "deepspeed-distributed", "kind": "ClusterTrainingRuntime"},
        "trainer": {"numNodes": 2, "resourcesPerNode": GPU},
    }
    assert warn({"spec": spec}, group="trainer.kubeflow.org", resource="trainjobs") == [
        "Pods of this workload are not known here: it names ClusterTrainingRuntime "
        "deepspeed-distributed"
    ]
