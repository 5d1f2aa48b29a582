"""Plan, keys, store, sandbox, fetch, environments and locks."""
