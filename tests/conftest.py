"""A busy machine is no failure: an example of a property has no time limit, whoever starts pytest how."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")  # --hypothesis-profile is loaded after this file, and wins
