# SPDX-License-Identifier: Apache-2.0
"""The constants of cards.json per GPU; the file names the source of each."""
import json
import pathlib


def cards():
    """Returns {card: {name: number, "latency": {opcode: cycles}}}"""
    written = json.loads(pathlib.Path(__file__).with_name("cards.json").read_text())
    written.pop("sources")
    out = {}
    for card, own in written.items():
        base = out.get(own.get("like"), {"latency": {}})
        latency = {**base["latency"], **{name: value[0] for name, value in own.get("latency", {}).items()}}
        out[card] = {**base, **{name: value[0] for name, value in own.items() if name not in ("like", "latency")},
                     "latency": latency}
    return out
