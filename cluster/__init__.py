"""Typed access to the Kubernetes objects we read and write: Proxies and labelled Secrets."""
