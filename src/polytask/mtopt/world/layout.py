"""Places and sizes in the scene of the bins, in the world's frame."""

from __future__ import annotations

import math

RIGHT_BIN = (0.165, 0.6)  # centre of the objects' bin
LEFT_BIN = (-0.165, 0.6)  # centre of the plate's bin
INNER = 0.14  # half width of a bin between its walls
PLATE_RADIUS = 0.105

HAND_LOW, HAND_HIGH = (-0.285, 0.48, 0.012), (0.285, 0.72, 0.35)  # the commanded fingertips stay in this box
YAW_LIMIT = math.pi / 2  # a gripper looks the same after half a turn, so this reaches every grasp
START_HEIGHT = 0.18  # of the fingertips at the start of an episode
PICK_HEIGHT = 0.012  # of the fingertips when they close
PLACE_HEIGHT = 0.035  # of the fingertips when they open over the plate
PRESENT = (0.10, 0.52, 0.32)  # where the hand shows what it holds
LIFTED = 0.24  # an object whose centre is above this is held up: none flies or falls there by chance
RESTING = 0.07  # an object whose centre is below this lies on the floor or on another object

COVER_HEIGHT = 0.08  # of the fingertips when they release the lid over an object
ASSIST_HEIGHT = 0.07  # below this an empty hand grasps by itself, in assisted mode
GRIP_OFFSETS = (0.012,) * 7 + (-0.010,)  # of the centres above the fingertips after `hand_over`; the lid by its handle
FINGER_REACH = 0.004  # from the centre to a pad when the fingers' joints are at zero
# Half widths between the fingers of the kinds, in their order, and of the lid's handle.
HALF_WIDTHS = (0.0215, 0.026, 0.02, 0.026, 0.032, 0.03, 0.021, 0.016)

OBSERVATION_CAMERAS = ("shoulder",)
OUTCOME_CAMERAS = ("present", "side", "plate")  # two of the hand, because a finger may hide an object
