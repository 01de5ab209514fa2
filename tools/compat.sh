#!/usr/bin/env bash
# Builds what `make compat` talks to a server with, into .tools/compat: programs in Go, and the newest openai package
# in an environment of its own. Needs go (1.26 or newer), and uv (the variable UV).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/.tools/compat
mkdir -p "$root/bin"
if ! command -v go >/dev/null; then
  echo "missing: go" >&2
  echo "   fix: install Go 1.26 or newer (go.dev)" >&2
  exit 1
fi
for program in \
  google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 \
  google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2 \
  github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4 \
  github.com/bojand/ghz/cmd/ghz@v0.93.0; do
  name=${program##*/}
  if [ ! -x "$root/bin/${name%@*}" ]; then
    echo "==> building ${name%@*} (minutes the first time)"
    GOBIN=$root/bin GOFLAGS=-buildvcs=false go install "$program"
  fi
done
echo "==> the newest openai package"
[ -x "$root/venv/bin/python" ] || "$UV" venv --quiet --python "${PYTHON:-python3}" "$root/venv"
"$UV" pip install --quiet --python "$root/venv/bin/python" --upgrade openai
