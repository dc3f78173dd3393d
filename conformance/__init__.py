"""Language-neutral conformance vectors for the respmq wire protocol, and a runner for them.

The vectors are the TOML files in ``vectors/``; ``README.md`` documents their format. The runner needs
nothing but the standard library and a host and port: ``python -m conformance HOST PORT``.
"""
