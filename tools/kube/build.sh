#!/usr/bin/env bash
# Builds the programs of `make kube-e2e` from the Go module proxy, and takes from there the custom resources and
# kwok's stages. They lie in $SPECTRIE_KUBE, by default ~/.cache/spectrie/kube: half a gigabyte when it is done,
# up to eight while it builds. What is there already is not built again. Needs go (1.26 or newer).
set -euo pipefail
root=${SPECTRIE_KUBE:-$HOME/.cache/spectrie/kube}
mkdir -p "$root/bin" "$root/crds" "$root/stages" "$root/done"
work=$root/go
# A local toolchain: no program may ask for another one than this machine's.
export GOMODCACHE=$work/modules GOCACHE=$work/objects GOTOOLCHAIN=local
export GOFLAGS="-modcacherw -buildvcs=false ${GOFLAGS:-}"

require() {
  if ! command -v go >/dev/null; then
    echo "missing: go" >&2
    echo "   fix: install Go 1.26 or newer (go.dev)" >&2
    exit 1
  fi
  if [ "$(df --output=avail -BG "$root" | tail -1 | tr -dc 0-9)" -lt 9 ]; then
    echo "missing: 9 GB of free disk at $root, for the time of the build" >&2
    echo "   fix: free them, or set SPECTRIE_KUBE to a folder on another disk" >&2
    exit 1
  fi
}

# MODULE@VERSION[,MODULE@VERSION...] PACKAGE...: programs of modules, built inside a module of ours, since `go install`
# takes none that has replacements. Built together, they share what they compile. What Kubernetes develops in its own
# tree is of modules that it publishes one minor version apart.
build() {
  local name at began=$SECONDS one
  name=$(echo "$1" | tr /, __)
  at=$work/$name
  [ ! -e "$root/done/$name" ] || return 0
  require
  echo "==> building ${1//,/, }"
  mkdir -p "$at"
  printf 'module build\n\ngo 1.26.0\n' >"$at/go.mod"
  for one in ${1//,/ }; do
    echo "require ${one%@*} ${one#*@}" >>"$at/go.mod"
    if [ "${one%@*}" = k8s.io/kubernetes ]; then
      (cd "$at" && GOFLAGS=-modcacherw go mod download "$one")
      sed -n "s|^\t\(k8s.io/[a-z-]*\) v0.0.0\$|replace \1 => \1 v0${one#*@v1}|p" \
        "$GOMODCACHE/cache/download/k8s.io/kubernetes/@v/${one#*@}.mod" | sort -u >>"$at/go.mod"
    fi
  done
  shift
  (cd "$at" && go build -mod=mod -trimpath -ldflags '-s -w' -o "$root/bin/" "$@")
  touch "$root/done/$name"
  echo "    $((SECONDS - began)) s"
}

# MODULE@VERSION TO FILE...: files of a module.
take() {
  local module=${1%@*} version=${1#*@} to=$2 name
  name=$(echo "$1-$2" | tr / _)
  shift 2
  [ ! -e "$root/done/$name" ] || return 0
  require
  echo "==> fetching $module $version"
  mkdir -p "$work"
  (cd "$work" && GOFLAGS=-modcacherw go mod download "$module@$version")
  (cd "$GOMODCACHE/$module@$version" && cp "$@" "$root/$to/")
  chmod -R u+w "$root/$to"
  touch "$root/done/$name"
}

build k8s.io/kubernetes@v1.36.3,sigs.k8s.io/kwok@v0.8.0,helm.sh/helm/v3@v3.21.1 sigs.k8s.io/kwok/cmd/kwok \
  helm.sh/helm/v3/cmd/helm k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler}
build go.etcd.io/etcd/server/v3@v3.7.3 go.etcd.io/etcd/server/v3
[ ! -e "$root/bin/server" ] || mv "$root/bin/server" "$root/bin/etcd"
build github.com/yannh/kubeconform@v0.8.0 github.com/yannh/kubeconform/cmd/kubeconform

take sigs.k8s.io/kwok@v0.8.0 stages kustomize/stage/node/{fast/node-initialize,heartbeat/node-heartbeat}.yaml \
  kustomize/stage/pod/fast/pod-{ready,complete,delete}.yaml
take github.com/prometheus-operator/prometheus-operator@v0.85.0 crds \
  example/prometheus-operator-crd/monitoring.coreos.com_{podmonitors,prometheusrules}.yaml
take sigs.k8s.io/gateway-api-inference-extension@v1.0.0 crds \
  config/crd/bases/inference.networking.k8s.io_inferencepools.yaml
take github.com/kserve/kserve@v0.15.2 crds config/crd/full/serving.kserve.io_inferenceservices.yaml

# What was only needed to build.
rm -rf "$work"
