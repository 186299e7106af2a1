"""Input columns and answer tables: validation, dictionaries of ids, groups and keys, answer buffers."""
