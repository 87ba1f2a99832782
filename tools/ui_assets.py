#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the web page, http/ui/*.{html,css,js,svg}, as a C source: each with its path, content type and
ETag (the SHA-256 of its bytes). CMake runs it when one of them changes.

  tools/ui_assets.py OUT FILE...
"""

import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
LINE = 24  # bytes per line


def path_of(file):
    return "/" if file.name == "index.html" else "/ui/" + file.name


def bytes_of(data):
    lines = (data[at:at + LINE] for at in range(0, len(data), LINE))
    return "\n".join("    " + "".join("%d," % byte for byte in line) for line in lines)


def source_of(files):
    out = ['// Made of http/ui by tools/ui_assets.py.\n#include "http/ui/assets.h"\n']
    rows = []
    for number, file in enumerate(files):
        data = file.read_bytes()
        out.append("static const unsigned char file_%d[] = { // %s\n%s\n};\n" % (number, file.name, bytes_of(data)))
        etag = hashlib.sha256(data).hexdigest()[:32]
        rows.append('    {"%s", "%s", "\\"%s\\"", (const char *)file_%d, sizeof file_%d},'
                    % (path_of(file), TYPES[file.suffix], etag, number, number))
    out.append("const struct asset assets[] = {\n%s\n};" % "\n".join(rows))
    out.append("const size_t asset_count = sizeof assets / sizeof *assets;")
    return "\n".join(out) + "\n"


def main():
    files = sorted(map(pathlib.Path, sys.argv[2:]), key=lambda file: file.name)
    pathlib.Path(sys.argv[1]).write_text(source_of(files))


if __name__ == "__main__":
    main()
