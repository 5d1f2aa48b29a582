"""Records, JUnit and JSON, by image digest."""
