"""Stdlib-only programs that run inside the sandbox, bound at /in/sealed."""
