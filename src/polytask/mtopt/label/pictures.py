"""Pictures of the page: PNG strips of outcome views, and uploads that are checked and turned into outcome views."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from polytask.errors import UserError

FORMATS = ("PNG", "JPEG", "WEBP")


@dataclass(frozen=True)
class UploadLimits:
    """Largest size of an uploaded picture."""

    bytes: int
    pixels: int


def strip(outcome: NDArray[np.uint8]) -> bytes:
    """Encode the views of an episode's end (V, H, W, 3) side by side as one PNG."""
    picture = Image.fromarray(np.concatenate(list(outcome), axis=1))  # (H, V * W, 3)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=1)  # the picture stays on this machine, so speed matters more than size
    return buffer.getvalue()


def decode(data: bytes, limits: UploadLimits) -> Image.Image:
    """Decode an upload. Its content counts, never a name or a header.

    Raises:
        UserError: If it is no picture of a valid format and size.
    """
    if not data:
        raise UserError("the file is empty")
    if len(data) > limits.bytes:
        raise UserError(f"the picture has {len(data):,} bytes; at most {limits.bytes:,} are allowed")
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)  # reads the header only
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError("the file is not a readable picture; valid formats: PNG, JPEG, WebP") from error
    width, height = picture.size
    if width * height > limits.pixels:
        raise UserError(f"the picture has {width} x {height} pixels; at most {limits.pixels:,} are allowed")
    if min(width, height) < 8:
        raise UserError(f"the picture has {width} x {height} pixels; each side needs at least 8")
    try:
        upright: Image.Image = ImageOps.exif_transpose(picture)  # phones store the rotation in the metadata
        return upright.convert("RGB")
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise UserError("the picture is damaged: its pixels cannot be read") from error


def fit_picture(picture: Image.Image, size: tuple[int, int], fit: str) -> NDArray[np.uint8]:
    """Turn a picture of any size into one of another size, (H, W, 3).

    Args:
        picture: Of colours.
        size: Height and width of the result, pixels.
        fit: `exact` refuses a picture of another size, `crop` uses its middle, `stretch` distorts it.

    Raises:
        UserError: If the picture is refused.
    """
    wanted = size[1], size[0]  # a picture's width comes first
    if fit == "crop":
        return np.asarray(ImageOps.fit(picture, wanted, Image.Resampling.BOX))
    if fit == "stretch":
        return np.asarray(picture.resize(wanted, Image.Resampling.BOX))
    if picture.size != wanted:
        needed = f"the run needs {wanted[0]} x {wanted[1]}; set fit=crop or fit=stretch"
        raise UserError(f"the picture has {picture.size[0]} x {picture.size[1]} pixels, {needed}")
    return np.asarray(picture)


def views(picture: Image.Image, count: int, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Turn a picture into outcome views (V, H, W, 3).

    A strip of `count` views, as the page shows outcomes, is cut into its views. Any other picture is cropped to the
    shape of a view and used for every view.
    """
    width, height = picture.size
    if count > 1 and width * size[0] == count * height * size[1]:
        part = width // count
        parts = [picture.crop((view * part, 0, (view + 1) * part, height)) for view in range(count)]
    else:
        parts = [picture] * count
    return np.stack([fit_picture(part, size, "crop") for part in parts])
