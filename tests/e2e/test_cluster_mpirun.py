# SPDX-License-Identifier: Apache-2.0
"""Two nodes that Open MPI's mpirun starts: number and rank come from its environment."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from harness import MODELS, Skip, WEFT, soak_only, start
from test_cluster import Leader, answers, lost_streams, port_free


def node_one(launcher):
    """The process of node 1, a child of mpirun."""
    children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return next(int(pid) for pid in children
                if b"OMPI_COMM_WORLD_RANK=1" in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


@soak_only
def test_mpirun_starts_nodes():
    """Answers as from one process; SIGTERM of node 1 ends all with 0; its SIGKILL ends each stream with one error."""
    if not shutil.which("mpirun") or "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        raise Skip("no mpirun of Open MPI")
    model = f"demo={MODELS / 'weft-demo-chat'},tensor-parallel-size=2,kv-cache-memory=32M"
    want = answers(start(model, "--threads", 2, "--device", "cpu"))
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "weft"
        script.write_text(f'#!/bin/sh\nexec mpirun --allow-run-as-root --oversubscribe -n 2 {WEFT} "$@"\n')
        script.chmod(0o700)

        class Launched(Leader):
            program = str(script)

        for fault in signal.SIGTERM, signal.SIGKILL:
            server = Launched(model, "--threads", 2, "--device", "cpu", "--master-port", port_free())
            try:
                assert answers(server) == want
                if fault == signal.SIGTERM:
                    os.kill(node_one(server.process), fault)
                    assert server.process.wait(30) == 0, server.output()
                    continue
                lost_streams(server, 4, lambda: os.kill(node_one(server.process), fault))
                assert server.process.wait(30) != 0
                assert "node 1 (rank 1 of 2) closed its connection" in server.output()
            finally:
                server.process.kill()
