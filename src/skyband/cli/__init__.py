"""The command line: one module per command; `skyband.cli.main` declares the commands and their options."""
