"""Runs in an environment of its own with llama-cpp-python: answers one JSON line with another.

It imports nothing of this project. The first line on stdout says that the model is loaded.
"""

import json
import sys
import time

from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


def main(path: str, threads: int, lookup_tokens: int) -> None:
    def load(draft: object) -> Llama:
        return Llama(
            path,
            n_ctx=4096,
            n_threads=threads,
            n_threads_batch=threads,
            draft_model=draft,
            verbose=False,
        )

    models = {False: load(None), True: load(LlamaPromptLookupDecoding(lookup_tokens))}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        call = json.loads(line)
        model = models[call["lookup"]]
        model.reset()
        began = time.perf_counter()
        tokens: list[int] = []
        for token in model.generate(call["ids"], temp=0.0, repeat_penalty=1.0, reset=True):
            if token in call["eos"] or len(tokens) >= call["max_tokens"]:
                break
            tokens.append(token)
        seconds = time.perf_counter() - began
        print(json.dumps({"tokens": tokens, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
