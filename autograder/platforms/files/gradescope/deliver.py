"""Hands out grades that were made elsewhere: looks a submission up by the digest of its file, and runs nothing of it.

usage: deliver.py SUBMISSION_FOLDER GRADED RESULTS

GRADED is {"waiting": results, "by_digest": {sha256 of a file: results}}. Needs Python's own library only.
"""

import hashlib
import json
import os
import sys

LARGEST = 1 << 24  # bytes of a file that is looked at


def main(folder, graded, results):
    with open(graded, encoding="utf-8") as opened:
        known = json.load(opened)
    found = known["waiting"]
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
                continue
            with open(path, "rb") as opened:
                found = known["by_digest"].get(hashlib.sha256(opened.read()).hexdigest(), found)
    with open(results + ".part", "w", encoding="utf-8") as opened:
        json.dump(found, opened, indent=1)
    os.replace(results + ".part", results)


if __name__ == "__main__":
    main(*sys.argv[1:])
