# SPDX-License-Identifier: Apache-2.0
"""For tests of commands: the program (first argument of the test) and the models that `make serve` serves first."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from progress import without_progress  # noqa: E402

WEFT = str(pathlib.Path(sys.argv.pop(1)).resolve())
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_CACHE="/nowhere")  # no test reaches a hub or uses a user's models
CHAT, EMBED, RERANK = (str(ROOT / "models" / f"weft-demo-{n}") for n in ("chat", "embed", "rerank"))


def weft(*args, feed=b"", stdin=None, stdout=subprocess.PIPE, cwd=None):
    """Runs a command whose stdin is `feed` or the file `stdin`; returns its result."""
    done = subprocess.run([WEFT, *(a if isinstance(a, bytes) else str(a) for a in args)], stdout=stdout, stderr=subprocess.PIPE,
                          timeout=600, cwd=cwd, stdin=stdin, input=feed if stdin is None else None)
    done.stderr = without_progress(done.stderr)
    return done
