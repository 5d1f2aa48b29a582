"""Outcomes of checks with their evidence: records kept by image digest, a table, JUnit XML."""
