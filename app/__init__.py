"""Composition root: settings, telemetry, the command line and the embedded stack."""
