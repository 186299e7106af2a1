"""What the commands of the command line do; `skyband.cli` only names them and their options."""
