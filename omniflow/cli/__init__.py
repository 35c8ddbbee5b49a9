"""The `omniflow` command."""
