{{- /* Whether the model, or what an option names, is a folder of the claim: what is fetched needs none. */ -}}
{{- define "spectrie.usesModels" -}}
{{- if or (hasPrefix "/models/" .Values.model.name) (contains "=/models/" (join " " .Values.worker.extraArgs)) }}true{{ end }}
{{- end }}

{{- /* Mounts that a worker and what prepares its model share. */ -}}
{{- define "spectrie.modelMounts" -}}
{{- $prefix := include "spectrie.prefix" . }}
- {name: {{ $prefix }}tmp, mountPath: /tmp}
- {name: {{ $prefix }}cache, mountPath: /var/cache/spectrie}
{{- if include "spectrie.usesModels" . }}
- {name: {{ $prefix }}models, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}

{{- define "spectrie.modelEnv" -}}
- {name: SPECTRIE_CACHE, value: /var/cache/spectrie}
{{- if eq .Values.worker.device "cuda" }}
- {name: TRITON_CACHE_DIR, value: /var/cache/spectrie/triton}
{{- end }}
{{- end }}

{{- define "spectrie.workerResources" -}}
{{- $resources := deepCopy .Values.worker.resources }}
{{- if .Values.worker.gpus }}
{{- $limits := $resources.limits | default dict }}
{{- $_ := set $resources "limits" (set $limits "nvidia.com/gpu" (int .Values.worker.gpus)) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{- /* Init containers that fetch the model and compute its bigrams. */ -}}
{{- define "spectrie.preparation" -}}
{{- $actions := list }}
{{- if .Values.model.fetch }}{{ $actions = append $actions "fetch" }}{{ end }}
{{- if .Values.model.bigrams }}{{ $actions = append $actions "bigrams" }}{{ end }}
{{- range $actions }}
- name: {{ include "spectrie.prefix" $ }}model-{{ . }}
  image: {{ include "spectrie.image" $ }}
  imagePullPolicy: {{ $.Values.image.pullPolicy }}
  args: [models, {{ . }}, {{ $.Values.model.name | quote }}]
  env: {{ include "spectrie.modelEnv" $ | nindent 4 }}
  resources: {{ include "spectrie.workerResources" $ | nindent 4 }}
  securityContext: {{ include "spectrie.containerSecurity" $ | nindent 4 }}
  volumeMounts: {{ include "spectrie.modelMounts" $ | nindent 4 }}
{{- end }}
{{- end }}

{{- /* The worker's container. Dict: root, sidecar (boolean). */ -}}
{{- define "spectrie.worker" -}}
{{- $values := .root.Values }}
{{- $prefix := include "spectrie.prefix" .root }}
- name: {{ $prefix }}worker
  image: {{ include "spectrie.image" .root }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  {{- if .sidecar }}
  restartPolicy: Always
  {{- end }}
  args:
    - worker
    - {{ $values.model.name | quote }}
    {{- if eq $values.layout "split" }}
    - --router={{ include "spectrie.name" .root }}-workers:50060
    - --worker-token-file=/etc/spectrie/worker/token
    {{- else }}
    - --router=unix:/run/spectrie/worker.sock
    {{- end }}
    {{- if and $values.access.tlsSecret (eq $values.layout "split") }}
    - --tls-ca=/etc/spectrie/authority/ca.crt
    {{- end }}
    {{- with $values.model.servedName }}
    - {{ printf "--served-model-name=%s" . | quote }}
    {{- end }}
    - --device={{ $values.worker.device }}
    - --health=0.0.0.0:50052
    - --drain-timeout={{ $values.worker.drainSeconds }}s
    {{- if ne $values.state.kind "none" }}
    - --state-dir=/var/lib/spectrie
    {{- end }}
    {{- range $values.worker.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env: {{ include "spectrie.modelEnv" .root | nindent 4 }}
  ports:
    - {name: worker-health, containerPort: 50052}
  startupProbe:
    grpc: {port: 50052}
    periodSeconds: 10
    failureThreshold: {{ div $values.worker.startupSeconds 10 }}
  readinessProbe:
    grpc: {port: 50052}
    periodSeconds: 5
    failureThreshold: 2
  livenessProbe:
    grpc: {port: 50052}
    periodSeconds: 10
    failureThreshold: 6
  resources: {{ include "spectrie.workerResources" .root | nindent 4 }}
  securityContext: {{ include "spectrie.containerSecurity" . | nindent 4 }}
  volumeMounts:
    {{- include "spectrie.modelMounts" .root | nindent 4 }}
    {{- if eq $values.layout "split" }}
    - {name: worker-token, mountPath: /etc/spectrie/worker, readOnly: true}
    {{- if $values.access.tlsSecret }}
    - {name: authority, mountPath: /etc/spectrie/authority, readOnly: true}
    {{- end }}
    {{- else }}
    - {name: {{ $prefix }}run, mountPath: /run/spectrie}
    {{- end }}
    {{- if ne $values.state.kind "none" }}
    - {name: {{ $prefix }}state, mountPath: /var/lib/spectrie}
    {{- end }}
    {{- if gt (int $values.worker.gpus) 1 }}
    - {name: {{ $prefix }}shm, mountPath: /dev/shm}
    {{- end }}
{{- end }}
