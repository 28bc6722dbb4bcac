"""A short digest of what makes a workflow look at its Proxy again."""

import hashlib
import json

from model import names
from model.proxy import Proxy

_POKING_ANNOTATIONS = (names.ANNOTATION_RETRY, names.ANNOTATION_ROTATE, names.ANNOTATION_SKIP_CLEANUP)


def fingerprint(proxy: Proxy, secret_version: str) -> str:
    """Return a digest of everything about an object that may need a step.

    The status is left out, so that our own writes change nothing; so is the spec-hash annotation, which only we write.

    Args:
        proxy: The object.
        secret_version: ``resourceVersion`` of the referenced cloud-init Secret, or "" where there is none.
    """
    seen = [
        proxy.uid,
        proxy.generation,
        proxy.deleting,
        {key: proxy.annotations[key] for key in _POKING_ANNOTATIONS if key in proxy.annotations},
        sorted(proxy.finalizers),
        secret_version,
    ]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16]
