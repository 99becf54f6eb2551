#!/bin/sh
# usage: setup.sh VENV EXTRA
#
# Makes VENV with this checkout installed in it (editable) at the versions of constraints*.txt, with the packages of
# CUDA that the driver and the GPU take (WARPLAB_CUDA=12 or 13 chooses instead; 13 where there is no driver) and those of
# EXTRA ("dev", "gpu", "torch"). What pip says goes to build/setup.log; what goes wrong is one sentence that says what to do.
set -u

venv=$1
extra=$2
cd "$(dirname "$0")/.." || exit 1
log=build/setup.log

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

toolkit() {
    case ${WARPLAB_CUDA:-} in
    12 | 13) printf '%s' "$WARPLAB_CUDA" && return ;;
    ?*) fail "WARPLAB_CUDA is '$WARPLAB_CUDA': set it to 12 or 13, or leave it out." ;;
    esac
    driver=$(asked driver_version | sed 's/\..*//')
    card=$(asked compute_cap | sed 's/\.//') # unknown to old drivers, for which it is 12 anyway
    if [ "${driver:-580}" -lt 580 ] || [ "${card:-75}" -lt 75 ]; then printf 12; else printf 13; fi
}

# A number that nvidia-smi knows of the first GPU; nothing without a driver.
asked() {
    nvidia-smi "--query-gpu=$1" --format=csv,noheader 2>/dev/null | sed -n '1s/^\([0-9][0-9.]*\).*$/\1/p'
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if supported "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
}

need_disk() {
    free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if [ "$free_kb" -lt "$1" ]; then
        fail "only $((free_kb / 1024)) MB are free on the disk of this folder and the packages need" \
            "$(($1 / 1024)) MB: free some, or move the checkout to a larger disk."
    fi
}

# Says in a sentence why pip failed.
explain() {
    if grep -q 'No space left on device' "$log"; then
        fail "the disk is full: free some space and run make again."
    fi
    if grep -qE 'NewConnectionError|ConnectTimeoutError|ReadTimeoutError|name resolution|setuptools.*from versions: none' "$log"; then
        fail "no package index can be reached: check the network or pip's index-url, or use the Python at hand with" \
            "make VENV=none (details in $log)."
    fi
    reason=$(sed -n 's/^ *[Ee][Rr][Rr][Oo][Rr]: //p' "$log" | grep -v subprocess-exited | tail -n 1)
    fail "the packages did not install (${reason:-see the end of the log}): see $log, then run make again."
}

if ! mkdir -p build 2>/dev/null || ! (: >"$log") 2>/dev/null; then
    fail "cannot write to $(pwd): make the checkout writable, or clone it to a folder of your own."
fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || ! supported "$venv/bin/python"; then
    python=$(find_python)
    if [ -z "$python" ]; then
        found=$(python3 --version 2>/dev/null)
        fail "Python 3.11, 3.12 or 3.13 is needed and ${found:-no Python} was found: install one, or name yours with" \
            "make PYTHON=/path/to/python3.12."
    fi
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || fail "$("$python" --version) has no venv module: install" \
        "it (Debian and Ubuntu: apt install $("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')-venv)," \
        "or use the Python at hand with make VENV=none."
    need_disk 4194304
    rm -rf "$venv"
    "$python" -m venv "$venv" >>"$log" 2>&1 || fail "$python could not make $venv: see $log."
fi
case $extra in
gpu | torch) need_disk 10485760 ;; # pip may choose the build for CUDA
esac

cuda=$(toolkit) || exit 1
echo "Setting up $venv ($extra, CUDA $cuda): a few minutes the first time, pip's words go to $log"
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --retries 2 \
    -c constraints.txt -c "constraints-cu$cuda.txt" -e ".[$extra,cu$cuda]" >>"$log" 2>&1 || explain

# Ahead, as confined processes may not write what they import. Labs that students edit are compiled when imported.
"$venv/bin/python" -m compileall -q autograder systems warplab labs >>"$log" 2>&1

# Ahead, so that the first kernel need not wait. Where it fails the first kernel says why, so nothing ends here.
"$venv/bin/python" -c 'from warplab.emulator.compiled import compile_parts; compile_parts()' ||
    echo "setup: the emulator was not compiled ahead; its first use will try again." >&2
touch "$venv/.ready-$extra"
