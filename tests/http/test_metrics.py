"""What the metrics count of requests over HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import openai

from tests.http.scripted_worker import MODEL
from tests.http.server import serving


def test_whole_requests_are_timed_streamed_or_not(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with openai.OpenAI(base_url=f"{server.http}/v1", api_key="none", max_retries=0) as client:
            client.completions.create(model=MODEL, prompt="one", n=2)
            for _ in client.completions.create(model=MODEL, prompt="two", stream=True):
                pass
        text = httpx.get(f"{server.http}/metrics", timeout=30).text
    counts = re.findall(
        r'^spectrie_e2e_seconds_count\{model="scripted"\} (\d+)$', text, re.MULTILINE
    )
    assert counts == ["2"]
