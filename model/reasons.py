"""The words that conditions carry as their reason."""

from enum import StrEnum


class Provisioned(StrEnum):
    """Reasons of the Provisioned condition."""

    CREATING = "Creating"
    PROVISIONING = "Provisioning"
    RUNNING = "Running"
    EXTERNAL = "External"
    QUOTA_EXCEEDED = "QuotaExceeded"
    ACCESS_DENIED = "AccessDenied"
    CLOUD_INIT_ERROR = "CloudInitError"
    PROVIDER_NOT_CONFIGURED = "ProviderNotConfigured"
    PERMANENT_ERROR = "PermanentError"
    TRANSIENT_ERROR = "TransientError"
    NAME_TAKEN = "NameTaken"
    NO_WORKER = "NoWorker"
    INSTANCE_STOPPED = "InstanceStopped"
    INSTANCE_MISSING = "InstanceMissing"
    REPLACING = "Replacing"
    DELETING = "Deleting"
    PAUSED = "Paused"


class Cause(StrEnum):
    """Why an instance is replaced, as the condition's message begins."""

    ROTATION = "a rotation was asked for"
    STOPPED = "it stopped by itself"
    SPEC = "the spec changed"
    AGE = "it reached its maximum age"


HEALTHY_NO_VERDICT = "NoVerdict"
