"""Run an exported policy with onnxruntime alone, without polytask and torch.

polytask export checkpoint=RUN to=onnx output=policy.onnx && python examples/run_onnx.py policy.onnx [task]
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
info = json.loads(session.get_modelmeta().custom_metadata_map["polytask"])
task = sys.argv[2] if len(sys.argv) > 2 else info["tasks"][0]
obs = np.zeros((1, info["obs_dim"]), np.float32)  # raw numbers: the model contains the normalizer
(action,) = session.run(["action"], {"obs": obs, "task": np.array([info["tasks"].index(task)])})

print(f"{task}, {info['control_rate']:.0f} actions a second, from {len(info['observation'])} parts of an observation")
for entry, value in zip(info["action"], action[0], strict=True):
    print(f"{entry['name']:16} {value:+.4f}  {entry['meaning']}")
