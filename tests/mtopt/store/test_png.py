"""The frames' file format."""

import io

import numpy as np
import pytest

from polytask.mtopt.store.png import DamagedError, decode, encode

IMAGE = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


@pytest.mark.parametrize("level", [1, 6])
def test_what_is_encoded_comes_back(level):
    result = decode(encode(IMAGE, level))
    assert result.dtype == np.uint8
    assert np.array_equal(result, IMAGE)
    assert not result.flags.writeable  # a view of the decompressed bytes


def test_other_programs_open_it():
    from PIL import Image

    with Image.open(io.BytesIO(encode(IMAGE))) as picture:
        assert np.array_equal(np.asarray(picture), IMAGE)


@pytest.mark.parametrize("at", [0, 20, 50, -20])
def test_a_changed_byte_is_noticed(at):
    data = bytearray(encode(IMAGE))
    data[at] ^= 0xFF
    with pytest.raises(DamagedError):
        decode(bytes(data))


def test_a_cut_file_is_noticed():
    with pytest.raises(DamagedError):
        decode(encode(IMAGE)[:-20])


def test_a_still_scene_takes_little_room():
    # Noise cannot be compressed, so all that can be saved is finding a frame again in the one before it.
    frame = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    assert len(encode(np.concatenate([frame] * 10))) < 1.2 * len(encode(frame))
