"""Prints what an image needs, a line a package: the project's dependencies and those of extras.

usage: requirements.py PYPROJECT EXTRA...
"""

import sys
import tomllib

with open(sys.argv[1], "rb") as opened:
    project = tomllib.load(opened)["project"]
wanted, asked = list(project["dependencies"]), sys.argv[2:]
while asked:
    for package in project["optional-dependencies"][asked.pop()]:
        if package.startswith("warplab["):
            asked += package[len("warplab[") : -1].split(",")
        else:
            wanted.append(package)
print("\n".join(dict.fromkeys(wanted)))
