"""Built-in roles. Each module imports with the base install alone; what is heavy is imported in `load`."""
