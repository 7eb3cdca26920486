"""Settings that people change, as YAML."""
