"""The program that a test of commands is given as its first argument, and the models that make serve starts with."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = str(pathlib.Path(sys.argv.pop(1)).resolve())
CHAT, EMBED, RERANK = (str(ROOT / "models" / f"weft-demo-{n}") for n in ("chat", "embed", "rerank"))


def weft(*args, feed=b"", stdout=subprocess.PIPE, cwd=None):
    """What a command did; without the lines that say how far a slow machine has loaded."""
    done = subprocess.run([WEFT, *(a if isinstance(a, bytes) else str(a) for a in args)], input=feed, stdout=stdout,
                          stderr=subprocess.PIPE, timeout=600, cwd=cwd)
    done.stderr = re.sub(rb"^loading .*\n", b"", done.stderr, flags=re.M)
    return done
