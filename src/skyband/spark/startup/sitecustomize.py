"""Python runs this at the start of each process that Spark starts: modules of PySpark come from its installed package.

Spark puts a zip file of PySpark first in the path of its Python processes. Python stores no bytecode of modules in a
zip file, so each process would compile PySpark again, and a stream starts with several of them, one after another.
`skyband.spark.session` adds this folder to their path. The zip file is used if it is not that of the installed package.
"""

import importlib
import os
import sys

_LIBRARIES = os.path.join("pyspark", "python", "lib")


def is_copy(place: str) -> bool:
    """Whether a place is one of Spark's zip files, and the path has the installed package of the same Spark."""
    folder, name = os.path.split(place)
    if not name.endswith(".zip") or not folder.endswith(_LIBRARIES):
        return False
    packages = folder[: -len(_LIBRARIES)].rstrip(os.sep)
    package = "pyspark" if name == "pyspark.zip" else "py4j"
    return packages in sys.path and os.path.isdir(os.path.join(packages, package))


def import_next() -> None:
    """Import the module of the same name that Python would have imported without this one, if there is one."""
    this = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)


sys.path[:] = [place for place in sys.path if not is_copy(place)]
if __name__ == "sitecustomize":
    sys.path[:] = [place for place in sys.path if place != os.path.dirname(os.path.abspath(__file__))]
    import_next()
