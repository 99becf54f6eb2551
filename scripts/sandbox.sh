#!/bin/sh
# usage: sandbox.sh
#
# Installs bubblewrap, which keeps submissions from the machine while they are captured, if that can be done without a
# question. Never fails: without it the judge uses what else the kernel has, and says so in every report.
set -u

if command -v bwrap >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null 2>&1 &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null 2>&1; }
fi
if ! command -v bwrap >/dev/null 2>&1; then
    echo "sandbox: bubblewrap is not here and could not be installed; 'autograder doctor' says what is used instead"
fi
exit 0
