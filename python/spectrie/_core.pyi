"""The compiled core: engine, text, router and CPU operators. One section per room."""

__version__: str
