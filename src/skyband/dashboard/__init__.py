"""The dashboard: a bounded history of answers, and a web server that shows it live in a browser."""
