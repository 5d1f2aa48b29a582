"""pytest plug-in, evidence and log parsers for bring-up checks."""
