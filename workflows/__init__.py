"""Deterministic orchestration over ``model``: what takes time, who may lease, and what runs on a schedule."""
