#!/bin/sh
# PrairieLearn's entry point; the image is docker/Dockerfile's target "prairielearn".
mkdir -p /grade/results
python -m autograder.platforms.in_container prairielearn --lab "$WARPLAB_LAB" --seconds "$WARPLAB_SECONDS" \
    --submission /grade/student --results /grade/results/results.json
if [ ! -s /grade/results/results.json ]; then
    printf '{"gradable": false, "format_errors": ["The judge did not start: tell your instructor."]}\n' \
        >/grade/results/results.json
fi
