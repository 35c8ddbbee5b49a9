"""The extension module. One section per crate; held to the compiled module by `mypy.stubtest`."""

__version__: str
