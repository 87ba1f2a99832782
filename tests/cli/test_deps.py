# SPDX-License-Identifier: Apache-2.0
"""tools/deps.sh with fake programs of a distribution: which packages it installs and names, and the source of libh2o.

    python3 tests/cli/test_deps.py
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/deps.sh"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PROGRAMS = {  # MISSING: packages that are not installed; OFFERED: those that apt knows
    "dpkg-query": """for name; do
        case $name in -*Depends*) echo 'libc6, clang-19 (>= 19)' && exit ;; -*) continue ;; esac
        case " $MISSING " in *" $name "*) ;; *) printf ' %s=installed ' "$name" ;; esac
    done""",
    "apt-cache": """[ $# -gt 1 ] || { echo "$LISTS" && exit; }
    case " $OFFERED " in *" $2 "*) echo '  Candidate: 1.0' ;; *) echo '  Candidate: (none)' ;; esac""",
    "apt-get": """echo "$@" >>"$CALLS"
    [ "$1" != indextargets ] || { printf '%s\\n' "$SOURCES" && exit; }
    [ "$1 $NETWORK" != '-c no' ] || { echo 'W: Failed to fetch the index'; echo 'E: Unable to locate it'; exit 100; }
    [ "$1 $3" != '-c download' ] || touch libh2o.deb""",
    "dpkg-deb": """folder=$3/usr/lib/here/pkgconfig
    mkdir -p "$folder" && printf 'prefix=/usr\\nlibdir=/usr/lib/here\\n' >"$folder/libh2o-evloop.pc" """,
    "id": 'echo "$USER_ID"',
    "sudo": "exit 1",
    "pkg-config": "exit 1",
}


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "tools").mkdir()
        (self.folder / "bin").mkdir()
        shutil.copy(SCRIPT, self.folder / "tools")
        for name, lines in PROGRAMS.items():
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{lines}\n")
            (self.folder / "bin" / name).chmod(0o755)

    def deps(self, *groups, missing="", offered="", user=0, network="yes", lists="500 http://mirror.example/debian trixie",
             sources="Debian http://mirror.example/debian/"):
        calls = self.folder / "calls"
        calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(calls), "USER_ID": str(user),
                       "MISSING": missing, "OFFERED": offered, "NETWORK": network, "LISTS": lists, "SOURCES": sources}
        done = subprocess.run([self.folder / "tools/deps.sh", *groups], capture_output=True, text=True, env=environment,
                              stdin=subprocess.DEVNULL)
        self.calls = calls.read_text().splitlines()
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def installed(self):
        return [word for call in self.calls if call.startswith("install ") for word in call.split()[1:] if word[0] != "-"]

    def test_nothing_is_said_and_fetched_where_all_is_there(self):
        self.assertEqual(self.deps("build", "test", "fuzz", "cross", "browser", "roots"), (0, ""))
        self.assertEqual(self.calls, [])

    def test_what_is_missing_is_installed_by_the_name_that_apt_knows(self):
        for offered, name in ("pkg-config gcc", "pkg-config"), ("pkgconf gcc", "pkgconf"):
            self.assertEqual(self.deps(missing="gcc pkg-config pkgconf", offered=offered),
                             (0, f"installing: gcc {name}\n"))
            self.assertEqual(self.installed(), ["gcc", name])
        self.assertEqual(self.deps("test", "fuzz", missing="clang libclang-rt-19-dev libclang-common-19-dev",
                                   offered="clang libclang-rt-19-dev")[0], 0)
        self.assertEqual(self.installed(), ["clang", "libclang-rt-19-dev"])

    def test_packages_are_named_to_a_user_who_may_not_install_them(self):
        everything = "gcc cmake libh2o-evloop-dev python3-venv curl"
        for offered, lists in (everything, "500 http://mirror.example/debian bookworm"), ("", ""):
            self.assertEqual(self.deps(missing=everything, offered=offered, lists=lists, user=1000),
                             (1, "deps.sh: these packages are missing and neither root nor sudo is at hand; as root run: "
                                 "apt-get install gcc cmake python3-venv curl libh2o-evloop-dev\n"))
        self.assertEqual(self.deps(missing=everything, offered="gcc", user=1000)[1].split("install ")[1],
                         "gcc cmake python3-venv curl\n")
        self.assertEqual(self.installed(), [])

    def test_libh2o_is_the_distribution_s_where_it_has_one(self):
        self.assertEqual(self.deps(missing="libh2o-evloop-dev", offered="libh2o-evloop-dev"),
                         (0, "installing: libh2o-evloop-dev\n"))
        self.assertEqual(self.installed(), ["libh2o-evloop-dev"])
        self.assertFalse((self.folder / "build").exists())

    @unittest.skipUnless(os.path.exists(KEYRING), f"{KEYRING} is not here")
    def test_libh2o_of_debian_12_is_unpacked_where_the_distribution_has_none(self):
        for user, label in (1000, "Debian"), (0, "$(LABEL)"):
            said = self.deps(missing="libh2o-evloop-dev", user=user,
                             sources=f"Elsewhere http://other.example/\n{label} http://mirror.example/debian/")
            self.assertEqual(said, (0, "the distribution has no libh2o: Debian 12's is unpacked into build/deps\n"))
            self.assertEqual([call.split()[2] for call in self.calls if call.startswith("-c")], ["update", "download"])
            self.assertEqual((self.folder / "build/deps/usr/lib/here/pkgconfig/libh2o-evloop.pc").read_text(),
                             "prefix=${pcfiledir}/../../..\nlibdir=${prefix}/lib/here\n")
            self.assertEqual(os.listdir(self.folder / "build"), ["deps"])
            self.assertEqual(self.deps(missing="libh2o-evloop-dev", user=user), (0, ""))
            shutil.rmtree(self.folder / "build")

    @unittest.skipUnless(os.path.exists(KEYRING), f"{KEYRING} is not here")
    def test_one_sentence_says_why_there_is_no_libh2o(self):
        none = "deps.sh: the distribution has no libh2o, and Debian 12's cannot be had: "
        self.assertEqual(self.deps(missing="libh2o-evloop-dev", network="no"), (0, none + "Failed to fetch the index\n"))
        self.assertEqual(self.deps(missing="libh2o-evloop-dev", sources="Ubuntu http://mirror.example/ubuntu/"),
                         (0, none + "apt has no source with Debian's packages\n"))
        self.assertEqual(os.listdir(self.folder / "build"), [])


if __name__ == "__main__":
    unittest.main()
