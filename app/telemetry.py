"""What Temporal's core reports about itself: its log lines go the way of all others."""

import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

_CORE_LEVEL = "ERROR"
"""Its warnings tell of late completions of cancelled activities, which is how cancellation works."""


def temporal_runtime() -> Runtime:
    """Return a runtime whose log lines reach Python's logging."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    filter_ = TelemetryFilter(core_level=_CORE_LEVEL, other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=filter_, forwarding=forwarding)))
