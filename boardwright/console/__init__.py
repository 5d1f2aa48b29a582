"""Serial console: transport, channel, shell, login, failure patterns."""
