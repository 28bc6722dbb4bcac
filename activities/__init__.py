"""Thin, idempotent Temporal activities over providers, cluster, probing and leasing."""
