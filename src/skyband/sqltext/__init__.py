"""SQL as text: tokens with their places, expressions cut out of it, and what is wrong with it pointed at.

Nothing here knows a query. Both who reads statements (`skyband.spelling`) and who writes them (`skyband.canonical`)
stand on it, so that what one writes the other cuts out again. sqlglot is loaded when the first text is read.
"""
