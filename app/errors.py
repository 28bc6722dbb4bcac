"""Errors out of task groups."""

from typing import Any


def leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """Return the errors of a group and of the groups in it, in order."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
