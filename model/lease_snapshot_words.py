"""Many words of one shape at once, as a snapshot has them: random ones, which no compression makes smaller."""

import zlib
from collections.abc import Sequence

from model import lease_ids
from model.lease_keys import HASH_CHARACTERS

_ID_CHARACTERS = 26
_HUFFMAN_LEVEL = 1

Others = list[tuple[int, str]]
"""The words of another shape, with their places among all."""


def pack_ids(ids: Sequence[str]) -> tuple[bytes, Others]:
    """Return lease ids in little more than the 16 bytes each stands for.

    Their characters take 5 bits each by Huffman's code alone; looking for repetitions would find none.
    """
    text = "".join(word for word in ids if len(word) == _ID_CHARACTERS)
    compressor = zlib.compressobj(_HUFFMAN_LEVEL, strategy=zlib.Z_HUFFMAN_ONLY)
    packed = compressor.compress(text.encode("utf-8", "surrogatepass")) + compressor.flush()
    return packed, [(place, word) for place, word in enumerate(ids) if len(word) != _ID_CHARACTERS]


def unpack_ids(packed: bytes, others: Others) -> list[str]:
    """Read what ``pack_ids`` wrote."""
    return _merged(_split(zlib.decompress(packed).decode("utf-8", "surrogatepass"), _ID_CHARACTERS), others)


def pack_uuids(words: Sequence[str]) -> tuple[bytes, Others]:
    """Return UUIDs as 16 bytes each."""
    raw = [lease_ids.uuid_to_bytes(word) for word in words]
    return b"".join(filter(None, raw)), [(place, words[place]) for place, one in enumerate(raw) if one is None]


def unpack_uuids(packed: bytes, others: Others) -> list[str]:
    """Read what ``pack_uuids`` wrote."""
    size = lease_ids.RAW_BYTES
    words = [lease_ids.uuid_from_bytes(packed[start : start + size]) for start in range(0, len(packed), size)]
    return _merged(words, others)


def pack_hashes(words: Sequence[str]) -> bytes:
    """Return hashes as 8 bytes each (``model.lease_keys``)."""
    return bytes.fromhex("".join(words))


def hash_words(packed: bytes) -> list[str]:
    """Read what ``pack_hashes`` wrote."""
    return _split(packed.hex(), HASH_CHARACTERS)


def _split(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _merged(words: list[str], others: Others) -> list[str]:
    for place, word in others:
        words.insert(place, word)
    return words
