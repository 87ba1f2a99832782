# SPDX-License-Identifier: Apache-2.0
"""The machine code of a kernel, the issue count of each instruction, and the cycles that a warp needs.

ptxas compiles the PTX whose lines the interpreter counted; nvdisasm prints the machine code with the PTX line of each
instruction. The issue count of a basic block is the median over the PTX lines of its instructions: ptxas moves single
instructions between blocks, but not most of a block. The control bits of an instruction specify for how many cycles its
warp stalls, and which of six scoreboards it waits for or sets.
"""
import collections
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

Instruction = collections.namedtuple("Instruction", "at text opcode stall sets_write sets_read waits line")
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
SECOND = re.compile(r"^\s+/\* (0x[0-9a-f]{16}) \*/")


def nvdisasm_here():
    """Returns the nvdisasm of the PATH, else that of this Python's packages (nvidia-cuda-nvdisasm), or None."""
    found = shutil.which("nvdisasm")
    return found or next(map(str, pathlib.Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm")), None)


def disassembled(ptxas, nvdisasm, ptx, entries, folder):
    """Returns {entry: (instructions, labels)} of a PTX text."""
    cubin = "%s/model.cubin" % folder
    subprocess.run([ptxas, "-arch=sm_90a", "-lineinfo", "-e", ",".join(entries), ptx, "-o", cubin], check=True)
    text = subprocess.run([nvdisasm, "-c", "-hex", "-gp", cubin], stdout=subprocess.PIPE, text=True, check=True).stdout
    found, line, pending, here = {}, None, None, None
    for row in text.splitlines():
        if m := re.match(r"\.text\.(\S+):", row):
            here = found[m.group(1)] = ([], {})
        elif here is None:
            continue
        elif m := re.match(r"(\.L_x_\d+):", row):
            here[1][m.group(1)] = len(here[0])
        elif m := re.search(r'## File ".nv_debug_ptx_txt", line (\d+)', row):
            line = int(m.group(1))
        elif m := INSTRUCTION.match(row):
            pending = m.groups()
        elif pending and (m := SECOND.match(row)):
            here[0].append(decoded(pending, int(m.group(1), 16), line))
            pending = None
    return found


def decoded(pending, control, line):
    text = pending[1]
    opcode = re.sub(r"^@!?U?P[T\d]+\s+", "", text).split()[0]
    return Instruction(int(pending[0], 16), text, opcode, control >> 41 & 15, control >> 46 & 7, control >> 49 & 7,
                       control >> 52 & 63, line)


def blocks_of(instructions, labels):
    """Returns the index ranges of basic blocks."""
    starts = {0, *labels.values()}
    starts |= {k + 1 for k, i in enumerate(instructions) if re.match(r"BRA|EXIT|RET|CALL|BSYNC|BRX|JMP", i.opcode)}
    starts = sorted(s for s in starts if s < len(instructions))
    return list(zip(starts, [*starts[1:], len(instructions)]))


def issues_of(instructions, labels, issued, text):
    """Returns the issue count of each instruction. issued: counts by line of PTX; text: its lines.

    A PTX branch at a block's end determines the count of the block, otherwise the median of its lines. A block that only
    the previous block can enter is not issued more often than that block: it contains code that ptxas moved out of a loop."""
    out, targets, before = [0.0] * len(instructions), set(labels.values()), None
    for first, end in blocks_of(instructions, labels):
        last = instructions[end - 1]
        known = [issued[i.line] for i in instructions[first:end] if i.line in issued]
        times = statistics.median(known) if known else 0
        if base(last.opcode) == "BRA" and re.match(r"\s*(@!?%p\d+\s+)?bra", text[last.line - 1]):
            times = issued.get(last.line, times)
        if first not in targets and before is not None:
            times = min(times, before)
        out[first:end] = [times] * (end - first)
        before = times
    return out


def base(opcode):
    return opcode.split(".")[0]


class Schedule:
    """The schedule of one warp alone: cycles from the control bits, results after the latencies of the GPU."""

    def __init__(self, latency):
        self.latency, self.now, self.ready = latency, 0, [0] * 6

    def issue(self, i):
        for board in range(6):
            if i.waits >> board & 1:
                self.now = max(self.now, self.ready[board])
        latency = self.latency.get(base(i.opcode), self.latency["other"])
        if i.sets_write < 6:
            self.ready[i.sets_write] = max(self.ready[i.sets_write], self.now + latency)
        if i.sets_read < 6:
            self.ready[i.sets_read] = max(self.ready[i.sets_read], self.now + min(latency, self.latency["read"]))
        self.now += max(i.stall, 1)


def alone(instructions, labels, issues, latency):
    """Returns the cycles of one warp for all its instructions: block by block in text order. The body of a loop is simulated
    twice, and the second pass counts, because it waits for the loads of the first."""
    schedule, blocks = Schedule(latency), blocks_of(instructions, labels)
    spent, index = [0] * len(blocks), {first: n for n, (first, end) in enumerate(blocks)}

    def run(n):
        before = schedule.now
        for i in instructions[slice(*blocks[n])]:
            schedule.issue(i)
        spent[n] = schedule.now - before

    for n, (first, end) in enumerate(blocks):
        if issues[first] == 0:
            continue
        run(n)
        back = re.search(r"BRA\S*\s.*?(\.L_x_\d+)", instructions[end - 1].text)
        start = index.get(labels.get(back.group(1), -1), n + 1) if back else n + 1
        for again in range(start, n + 1):
            if issues[blocks[again][0]] != 0:
                run(again)
    return sum(issues[first] * cycles for (first, end), cycles in zip(blocks, spent))
