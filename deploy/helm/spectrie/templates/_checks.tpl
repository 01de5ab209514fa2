{{- /* What values must not be together, each in a sentence that says what to do: a schema would name a keyword alone. */ -}}
{{- define "spectrie.checks" -}}
{{- include "spectrie.checkName" . }}
{{- include "spectrie.checkAccess" . }}
{{- include "spectrie.checkModel" . }}
{{- include "spectrie.checkWorker" . }}
{{- include "spectrie.checkLayout" . }}
{{- end }}

{{- /* Helm takes releases that a Service, whose name begins with a letter, cannot be named after. */ -}}
{{- define "spectrie.checkName" -}}
{{- $name := include "spectrie.name" . }}
{{- if not (regexMatch "^[a-z]" $name) }}
{{- fail (printf "a Service cannot be named %s, as this release is: set name to one that begins with a letter" $name) }}
{{- end }}
{{- end }}

{{- define "spectrie.checkAccess" -}}
{{- $access := .Values.access }}
{{- if include "spectrie.isBeside" . }}
{{- if $access.open }}
{{- fail (printf "set access.open to false: in layout %s the app alone reaches the model, at 127.0.0.1" .Values.layout) }}
{{- end }}
{{- if or $access.tlsSecret $access.workerTokenSecret }}
{{- fail (printf "set access.tlsSecret and access.workerTokenSecret to \"\": layout %s has connections at 127.0.0.1 alone" .Values.layout) }}
{{- end }}
{{- else }}
{{- if and $access.open $access.keysSecret }}
{{- fail "access.open serves everyone: set access.keysSecret to \"\" as well, or access.open to false" }}
{{- end }}
{{- if not (or $access.open $access.keysSecret) }}
{{- fail "set access.keysSecret to a Secret whose key keys.toml lists API keys, or access.open to true to serve everyone who reaches the pods" }}
{{- end }}
{{- end }}
{{- /* The pod's group, by which a container reads a Secret, is not ours to set there. */}}
{{- if and (eq .Values.layout "component") $access.keysSecret }}
{{- fail "set access.keysSecret to \"\": in layout component the pod is yours, and our user may not read its Secrets" }}
{{- end }}
{{- if and (eq .Values.layout "split") (not $access.workerTokenSecret) }}
{{- fail "set access.workerTokenSecret to a Secret whose key token is the secret of workers: in layout split they dial the router by TCP" }}
{{- end }}
{{- end }}

{{- define "spectrie.checkModel" -}}
{{- $model := .Values.model }}
{{- if and $model.fetch (hasPrefix "/" $model.name) }}
{{- fail (printf "model.fetch fetches an alias and model.name is the folder %s: set model.name to an alias such as smollm2-135m, or model.fetch to false" $model.name) }}
{{- end }}
{{- if and (include "spectrie.usesModels" .) (not $model.claim) }}
{{- fail "model.name or an option of worker.extraArgs is a folder of /models: set model.claim to the claim that holds it, or model.fetch to true and model.name to an alias such as smollm2-135m" }}
{{- end }}
{{- end }}

{{- define "spectrie.checkWorker" -}}
{{- $gpus := int .Values.worker.gpus }}
{{- $args := .Values.worker.extraArgs }}
{{- if and (eq .Values.worker.device "cuda") (lt $gpus 1) }}
{{- fail "worker.device is cuda: set worker.gpus to the number of GPUs of each worker" }}
{{- end }}
{{- if and (ne .Values.worker.device "cuda") (gt $gpus 0) }}
{{- fail "worker.gpus is not 0: set worker.device to cuda, or worker.gpus to 0" }}
{{- end }}
{{- $split := printf "--tensor-parallel=%d" $gpus }}
{{- if and (gt $gpus 1) (not (has $split $args)) }}
{{- fail (printf "worker.gpus is %d: add %s to worker.extraArgs, which shares the model among them" $gpus $split) }}
{{- end }}
{{- end }}

{{- define "spectrie.checkLayout" -}}
{{- $layout := .Values.layout }}
{{- $isOurs := or (eq $layout "pod") (eq $layout "split") }}
{{- if and (eq .Values.state.kind "claim") (not $isOurs) }}
{{- fail (printf "set state.kind to scratch or none: in layout %s no replica has a claim of its own" $layout) }}
{{- end }}
{{- /* Without a group of ours, a claim cannot be written by our user. */}}
{{- if and (eq $layout "component") .Values.cache.claim }}
{{- fail "set cache.claim to \"\": in layout component the pod is yours, and our user may not write to its claims" }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .enabled (not $isOurs) }}
{{- fail (printf "set autoscaling.enabled to false: what layout %s makes is not scaled by this chart" $layout) }}
{{- end }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "autoscaling.minReplicas is %d and autoscaling.maxReplicas is %d: set the former no higher than the latter" (int .minReplicas) (int .maxReplicas)) }}
{{- end }}
{{- end }}
{{- if and (eq $layout "app") (not .Values.app.containers) }}
{{- fail "set app.containers to the containers of your app, or layout to pod for a pod without one" }}
{{- end }}
{{- if .Values.inferencePool.endpointPicker }}
{{- if ne $layout "pod" }}
{{- fail "inferencePool.endpointPicker chooses among pods that have a router each: set layout to pod, or the picker to \"\"" }}
{{- end }}
{{- if not (has "--metrics-compat=vllm" .Values.router.extraArgs) }}
{{- fail "inferencePool.endpointPicker asks each pod for vLLM's metrics: add --metrics-compat=vllm to router.extraArgs" }}
{{- end }}
{{- end }}
{{- end }}
