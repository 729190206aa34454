"""The GPUSharePool, and the parts of Nodes and Pods that decisions need."""
