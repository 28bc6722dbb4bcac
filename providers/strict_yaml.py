"""Reads YAML so that every mistake is one line with its place, and no document is too much for the process."""

from collections.abc import Hashable
from typing import Any

import yaml

from model.errors import ConfigurationError

MAX_BYTES = 1024 * 1024
MAX_NODES = 100_000
"""Limit on the nodes of a document with every alias written out, which is what reading it costs."""
MAX_DEPTH = 50


class _Loader(yaml.SafeLoader):
    """The safe loader, which also refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f'duplicate key "{key.value}"', key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(data: bytes, name: str) -> Any:
    """Return the document in ``data``.

    Args:
        data: The bytes of the file; UTF-8, a byte order mark is allowed.
        name: What error messages call the file.

    Raises:
        ConfigurationError: Not UTF-8, not YAML, more than one document, a duplicate key, or too large; one line with
            the file, the line and the column. The text around the fault is not repeated, it could be a secret.
    """
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"{name}: larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{name}: not UTF-8 at byte {error.start}") from None
    try:
        return _construct(text, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = " ".join((error.problem or error.context or "not YAML").split())
        raise ConfigurationError(f"{name}{place}: {problem}") from None
    except yaml.reader.ReaderError as error:
        raise ConfigurationError(f"{name}: {error.reason} at character {error.position}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"{name}: not YAML ({type(error).__name__})") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: nested too deeply") from None


def _construct(text: str, name: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, name)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node, name: str) -> None:
    """Count the nodes with every alias written out, and stop early: a few lines of aliases can stand for billions."""
    pending = [(root, 1)]
    count = 0
    while pending:
        node, depth = pending.pop()
        count += 1
        if count > MAX_NODES:
            raise ConfigurationError(f"{name}: more than {MAX_NODES} values, aliases counted where they are used")
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"{name}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.SequenceNode):
            pending.extend((child, depth + 1) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            pending.extend((child, depth + 1) for pair in node.value for child in pair)
