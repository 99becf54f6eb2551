#!/usr/bin/env bash
# Gradescope runs this once, when the autograder's image is built.
set -eu
cd /autograder/source
. ./settings
if [ "$mode" = delivered ]; then
    exit 0 # nothing is run there: Gradescope's images have Python
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap python3 python3-venv
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install -q -c constraints.txt -c constraints-cu13.txt -r requirements.txt
# The emulator is compiled here, for any processor of this kind, and not in the ten minutes of a submission.
. ./environment
/autograder/venv/bin/python -c 'from warplab.emulator.compiled import compile_parts; compile_parts()'
