"""The embedded stack: a Kubernetes control plane and a Temporal server on loopback, for development and tests."""
