"""Credentials for the API server: the ServiceAccount of the Pod, or a kubeconfig."""
