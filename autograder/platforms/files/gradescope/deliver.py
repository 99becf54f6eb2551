"""Hands out grades that were made elsewhere: looks a submission up by the digest of its code, and runs nothing of it.

usage: deliver.py SUBMISSION_FOLDER GRADED RESULTS

GRADED is {"waiting": results, "by_digest": {digest: results}, "by_person": {digest of e-mail and digest: results}}. Who
handed in is in the file submission_metadata.json beside the folder, as Gradescope writes it. Line ends make no
difference, and of a notebook each cell is looked up. Needs Python's own library only.
"""

import hashlib
import json
import os
import sys

LARGEST = 1 << 24  # bytes of a file that is looked at


def digest(content):
    return hashlib.sha256(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip()).hexdigest()


def key(email, of):
    return hashlib.sha256((email.strip().lower() + "\0" + of).encode("utf-8", "replace")).hexdigest()


def digests(path):
    """Those of the code in a file: of it all, and of each cell of a notebook behind its first line."""
    with open(path, "rb") as opened:
        content = opened.read(LARGEST)
    found = [digest(content)]
    if path.lower().endswith(".ipynb"):
        try:
            for cell in json.loads(content)["cells"]:
                source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
                found.append(digest(source.strip().partition("\n")[2].encode("utf-8", "replace")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
    return found


def people(folder):
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(folder)), "submission_metadata.json"), "rb") as opened:
            return [str(user["email"]) for user in json.load(opened)["users"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def main(folder, graded, results):
    with open(graded, encoding="utf-8") as opened:
        known = json.load(opened)
    found, own = known["waiting"], None
    emails = people(folder)
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
                continue
            for one in digests(path):
                found = known["by_digest"].get(one, found)
                own = next(
                    (known["by_person"][k] for k in (key(e, one) for e in emails) if k in known["by_person"]), own
                )
    with open(results + ".part", "w", encoding="utf-8") as opened:
        json.dump(own or found, opened, indent=1)
    os.replace(results + ".part", results)


if __name__ == "__main__":
    main(*sys.argv[1:])
