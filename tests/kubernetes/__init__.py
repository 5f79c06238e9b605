"""A real Kubernetes of one node, and what pods with devices get there: `make test-kubernetes`."""
