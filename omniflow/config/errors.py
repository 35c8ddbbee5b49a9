"""What is wrong with a configuration file."""

from omniflow.errors import InvalidArgument


class ConfigError(InvalidArgument):
    """The message names file, line and key of every mistake, one a line."""
