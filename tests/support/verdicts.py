"""What an API server says to many objects, asked for in one kubectl call."""

import re
from collections.abc import Mapping
from typing import Any

from tests.support.kubectl import Kubectl

_ERROR = re.compile(r"^(?:Error from server|The Proxy )", re.MULTILINE)
_INVALID = re.compile(r'"(?P<name>[^"]+)" is invalid: (?P<text>.*)', re.DOTALL)


def dry_run(kubectl: Kubectl, objects: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Apply objects without keeping them; return by name what kubectl printed about each that was refused.

    An object is in the answer as "" when it was accepted.
    """
    result = kubectl.apply(*objects.values(), arguments=["--dry-run=server"])
    said = dict.fromkeys(objects, "")
    before, *errors = _ERROR.split(result.stderr)
    assert not before.strip(), f"kubectl said something about no object at all: {before[:1000]}"
    for error in errors:
        invalid = _INVALID.search(error)
        assert invalid, f"not a refusal of an object: {error[:1000]}"
        said[invalid["name"]] = invalid["text"].strip()
    accepted = {name for name, text in said.items() if not text}
    printed = {line.split()[0].partition("/")[2] for line in result.stdout.splitlines()}
    assert printed == accepted, f"neither accepted nor refused: {accepted ^ printed}"
    return said
