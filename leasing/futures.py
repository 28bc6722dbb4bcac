"""Futures whose failure is somebody else's to handle."""

import asyncio
from typing import Any


def retrieve(future: "asyncio.Future[Any]") -> None:
    """Look at a done future's error, so that asyncio does not report that nobody did; for ``add_done_callback``."""
    if not future.cancelled():
        future.exception()
