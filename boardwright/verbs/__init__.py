"""One function a verb: the joints between the rooms below."""
