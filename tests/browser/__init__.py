"""Tests in a real browser. A package, because another folder has a file of the same name."""
