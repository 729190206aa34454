"""What the chart calls the webhooks, their configuration and their Service."""

NAME = "gpushare-webhook"
PODS, OTHER_PODS, WORKLOADS = (
    "pods.gpushare.io",
    "pods-of-the-other-policy.gpushare.io",
    "workloads.gpushare.io",
)
