"""Python runs this at the start of every process of the tests: modules of PySpark come from its installed package.

Spark puts a zip file of PySpark first in the path of its Python processes, and starts some for each stream. Python
keeps no bytecode of modules in a zip file, so each of these processes would compile PySpark again (0.6 s of CPU time).
A Python without an installed PySpark, such as that of a packed environment, needs the zip file.
"""

import os
import sys

if any(os.path.isdir(os.path.join(place, "pyspark")) for place in sys.path):
    sys.path[:] = [place for place in sys.path if not place.endswith("/pyspark.zip")]
