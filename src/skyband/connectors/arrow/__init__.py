"""Rows of files as Arrow tables, read in this process by the rules of Spark's readers.

Input for which these readers cannot give exactly the rows of Spark is rejected, with a message that names it.
"""
