"""Pictures in and out."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from polytask.errors import UserError
from polytask.mtopt.label.pictures import UploadLimits, decode, strip, views

LIMITS = UploadLimits(bytes=100_000, pixels=300 * 300)


def encoded(array, kind="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def array():
    return np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)


def test_strip_lays_views_side_by_side():
    outcome = np.stack([np.full((16, 16, 3), 10, np.uint8), np.full((16, 16, 3), 200, np.uint8)])
    image = np.asarray(Image.open(io.BytesIO(strip(outcome))))
    assert image.shape == (16, 32, 3)
    assert (image[:, :16] == 10).all()
    assert (image[:, 16:] == 200).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_three_formats_are_accepted(array, kind):
    assert decode(encoded(array, kind), LIMITS).size == (60, 40)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_formats_are_refused(array, kind):
    with pytest.raises(UserError, match="valid formats: PNG, JPEG, WebP"):
        decode(encoded(array, kind), LIMITS)


@pytest.mark.parametrize("data", [b"", b"<svg onload='alert(1)'/>", b"\x89PNG\r\n\x1a\n" + bytes(40), b"GIF89a" * 9])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(UserError):
        decode(data, LIMITS)


def test_a_cut_off_picture_is_refused(array):
    with pytest.raises(UserError, match=r"damaged|cannot be read"):
        decode(encoded(array)[:2000], LIMITS)


def test_too_many_bytes_are_refused(array):
    with pytest.raises(UserError, match="at most 1,000"):
        decode(encoded(array), UploadLimits(1000, 10**6))


def claims(width, height):
    """Make a PNG of a few bytes whose header claims a size, as a decompression bomb would."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(301, 300), (10_000, 10_000), (60_000, 60_000), (4, 4)])
def test_sizes_are_checked_before_pixels_are_decoded(width, height):
    with pytest.raises(UserError, match=r"pixels|PNG, JPEG"):
        decode(claims(width, height), LIMITS)


def test_a_phone_picture_is_turned_upright(array):
    turned = Image.Exif()
    turned[0x0112] = 6  # stored lying on its side
    assert decode(encoded(array, "JPEG", exif=turned), LIMITS).size == (40, 60)


def test_transparency_and_grey_become_colour():
    grey = encoded(np.full((20, 20), 77, np.uint8))
    assert np.asarray(decode(grey, LIMITS))[0, 0].tolist() == [77, 77, 77]


def test_a_single_picture_stands_for_every_view():
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 20:60] = 100  # the central square
    found = views(Image.fromarray(image), 3, (16, 16))
    assert found.shape == (3, 16, 16, 3)
    assert found.dtype == np.uint8
    assert (found == 100).all()


def test_a_strip_is_cut_into_its_views():
    outcome = np.random.default_rng(0).integers(0, 255, (2, 16, 16, 3), dtype=np.uint8)
    assert (views(decode(strip(outcome), LIMITS), 2, (16, 16)) == outcome).all()
