"""The GPUSharePool, and the fields of Nodes, Pods and other objects that decisions need."""
