"""The page in a browser: a history of answers, and a small server that shows it while it grows."""
