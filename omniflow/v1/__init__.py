"""Generated from proto/omniflow/v1 by `make proto`; do not edit."""
