"""Prints what an image needs, a line a package: the project's dependencies and those of extras.

usage: requirements.py PYPROJECT EXTRA...
"""

import sys
import tomllib

with open(sys.argv[1], "rb") as opened:
    project = tomllib.load(opened)["project"]
for packages in project["dependencies"], *(project["optional-dependencies"][extra] for extra in sys.argv[2:]):
    print("\n".join(packages))
