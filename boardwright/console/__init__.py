"""One serial console: transport, channel, shell; one reader, one transcript, one stage."""
