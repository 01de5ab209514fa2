"""What a client of the API server needs here: apply, dry run, read, wait. JSON over one TLS connection."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tools.kube.node.pods import Manifest

__all__ = ["Api", "Refused", "has_condition"]

_WAIT_S = 120.0


def has_condition(live: Manifest, name: str) -> bool:
    """Whether an object's status says that a condition holds."""
    conditions = live.get("status", {}).get("conditions") or []
    return any(one["type"] == name and one["status"] == "True" for one in conditions)


class Refused(Exception):
    """The API server refuses something; the message is its own."""


@dataclass(slots=True)
class Answer:
    """What the server answers: the object, and what it warns of."""

    body: Manifest
    warnings: list[str]


class Api:
    """A client.

    Args:
        port: Of the server, on 127.0.0.1.
        token: Of a user that may do everything.
    """

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        # The server makes a certificate of its own at each start.
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._paths: dict[tuple[str, str], tuple[str, bool]] = {}

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Answer:
        """One request.

        Raises:
            Refused: The answer is no success.
        """
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=60, context=self._context
        )
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, self._headers | {"Content-Type": kind})
            response = connection.getresponse()
            text = response.read().decode()
            warnings = [
                one.split('"')[1] for one in response.headers.get_all("Warning", []) if '"' in one
            ]
        finally:
            connection.close()
        if response.status >= 300:
            try:
                message = json.loads(text)["message"]
            except (ValueError, KeyError):
                message = text
            raise Refused(f"{response.status}: {message}")
        return Answer(json.loads(text) if text.startswith("{") else {"text": text}, warnings)

    def path(self, manifest: Manifest, namespace: str) -> str:
        """Where an object is, or is to be."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        if (version, kind) not in self._paths:
            group = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for one in self.call("GET", group).body["resources"]:
                if "/" not in one["name"]:
                    place = (f"{group}/{{}}{one['name']}", one["namespaced"])
                    self._paths[version, one["kind"]] = place
        form, is_namespaced = self._paths[version, kind]
        within = f"namespaces/{namespace}/" if is_namespaced else ""
        return f"{form.format(within)}/{quote(manifest['metadata']['name'])}"

    def apply(self, manifest: Manifest, namespace: str, *, is_dry: bool = False) -> Answer:
        """Server-side apply, in which an unknown field is an error.

        Args:
            manifest: What to apply.
            namespace: Where, if it is of a kind that has one.
            is_dry: Whether nothing is kept.
        """
        options = {"fieldManager": "kube-e2e", "force": "true", "fieldValidation": "Strict"}
        if is_dry:
            options["dryRun"] = "All"
        where = f"{self.path(manifest, namespace)}?{urlencode(options)}"
        return self.call("PATCH", where, manifest, "application/apply-patch+yaml")

    def merge(
        self, manifest: Manifest, namespace: str, patch: Manifest, *, is_dry: bool = False
    ) -> Answer:
        """A strategic merge patch of an object, as Kustomize makes one."""
        options = "fieldValidation=Strict&dryRun=All" if is_dry else "fieldValidation=Strict"
        where = f"{self.path(manifest, namespace)}?{options}"
        return self.call("PATCH", where, patch, "application/strategic-merge-patch+json")

    def status(self, manifest: Manifest, namespace: str, status: Manifest) -> None:
        """Sets the status of an object, as its controller would."""
        where = f"{self.path(manifest, namespace)}/status"
        self.call("PATCH", where, {"status": status}, "application/merge-patch+json")

    def get(self, manifest: Manifest, namespace: str) -> Manifest:
        """An object as it is."""
        return self.call("GET", self.path(manifest, namespace)).body

    def pods(self, namespace: str) -> list[Manifest]:
        """The pods of a namespace."""
        found = self.call("GET", f"/api/v1/namespaces/{namespace}/pods").body["items"]
        return list(found)

    def events(self, namespace: str) -> list[str]:
        """What controllers complain of in a namespace."""
        found = self.call("GET", f"/api/v1/namespaces/{namespace}/events").body["items"]
        return [one["message"] for one in found if one["type"] == "Warning"]

    @staticmethod
    def wait(what: str, is_so: Callable[[], object], why: Callable[[], str] = lambda: "") -> None:
        """Returns once something is so.

        Args:
            what: Names it.
            is_so: Asks.
            why: What to say where it does not become so.

        Raises:
            TimeoutError: It does not within two minutes.
        """
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except (OSError, Refused):
                pass  # the server is not there yet, or not the object
            time.sleep(0.2)
        raise TimeoutError(f"{what}: not within {_WAIT_S:g} s {why()}")
