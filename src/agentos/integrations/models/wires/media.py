"""Images and documents as URLs carry them."""

from __future__ import annotations

import mimetypes
import re

from agentos.integrations.models.conversation import Media

PDF = "application/pdf"
# What an image is taken for whose URL does not say.
_IMAGE = "image/jpeg"
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


def from_data_url(url: str, otherwise: str) -> Media | None:
    """What a data URL holds; None if it is not one. `otherwise`: its type if it names none."""
    found = _DATA_URL.match(url)
    if found is None:
        return None
    return Media(media_type=found[1].lower() or otherwise, data=url[found.end() :])


def image(url: str) -> Media:
    """An image by any URL."""
    inline = from_data_url(url, _IMAGE)
    if inline is not None:
        return inline
    guessed = mimetypes.guess_type(url.partition("?")[0])[0] or ""
    return Media(media_type=guessed if guessed.startswith("image/") else _IMAGE, url=url)


def data_url(media: Media) -> str:
    return f"data:{media.media_type};base64,{media.data}"
