"""A node without a kubelet of its own: pods read from manifests, their processes, and who calls them."""
