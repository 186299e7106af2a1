"""The figures and tables of the five papers, measured again with this library and put beside the printed numbers."""
