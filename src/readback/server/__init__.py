"""Public: the HTTP API and the console of a ledger, as an ASGI application and as `readback serve`.

The extra `server` installs the packages. `create_app` builds the application for any ASGI server; `serving.serve` runs
the application with uvicorn.
"""
