"""A node of Kubernetes: devices for its kubelet, labels for its scheduler, shim installed from an image. Cold."""
