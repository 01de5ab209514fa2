{{- /* The router's container. Dict: root, sidecar (boolean). */ -}}
{{- define "spectrie.router" -}}
{{- $values := .root.Values }}
{{- $prefix := include "spectrie.prefix" .root }}
{{- $beside := include "spectrie.isBeside" .root }}
- name: {{ include "spectrie.routerName" .root }}
  image: {{ include "spectrie.routerImage" .root }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  {{- if .sidecar }}
  restartPolicy: Always
  {{- end }}
  args:
    - router
    - --http={{ if $beside }}127.0.0.1{{ else }}0.0.0.0{{ end }}:8000
    - --grpc={{ if $beside }}127.0.0.1{{ else }}0.0.0.0{{ end }}:50051
    {{- if eq $values.layout "split" }}
    - --worker-listen=0.0.0.0:50060
    - --worker-token-file=/etc/spectrie/worker/token
    {{- else }}
    - --worker-listen=unix:/run/spectrie/worker.sock
    {{- end }}
    # Probes and metrics in clear, for the kubelet and the scraper.
    - --metrics-listen=0.0.0.0:9090
    - --drain-timeout={{ $values.router.drainSeconds }}s
    {{- if ne $values.state.kind "none" }}
    - --state-dir=/var/lib/spectrie
    {{- end }}
    {{- if $values.access.keysSecret }}
    - --api-keys=/etc/spectrie/keys/keys.toml
    {{- end }}
    {{- if $values.access.tlsSecret }}
    - --tls-cert=/etc/spectrie/tls/tls.crt
    - --tls-key=/etc/spectrie/tls/tls.key
    {{- end }}
    {{- range $values.router.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    # For kubectl exec POD -c {{ include "spectrie.routerName" .root }} -- spectrie memory list
    - {name: SPECTRIE_ADMIN, value: "unix:/run/spectrie/admin.sock"}
    {{- if $values.access.open }}
    - {name: SPECTRIE_OPEN, value: "1"}
    {{- end }}
    {{- with $values.access.redisSecret }}
    - name: SPECTRIE_REDIS
      valueFrom:
        secretKeyRef: {name: {{ . | quote }}, key: url}
    {{- end }}
  ports:
    {{- if not $beside }}
    - {name: http, containerPort: 8000}
    - {name: grpc, containerPort: 50051}
    {{- end }}
    {{- if eq $values.layout "split" }}
    - {name: workers, containerPort: 50060}
    {{- end }}
    - {name: metrics, containerPort: 9090}
  startupProbe:
    # What starts after a sidecar finds it ready; a pod's own readiness waits for the worker by itself.
    httpGet: {path: {{ if .sidecar }}/readyz{{ else }}/healthz{{ end }}, port: metrics}
    periodSeconds: 2
    failureThreshold: 30
  readinessProbe:
    httpGet: {path: /readyz, port: metrics}
    periodSeconds: 5
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /healthz, port: metrics}
    periodSeconds: 10
    failureThreshold: 6
  {{- if not .sidecar }}
  lifecycle:
    # Endpoints need a moment to forget this pod before it stops accepting.
    preStop:
      sleep: {seconds: {{ $values.router.preStopSeconds }}}
  {{- end }}
  resources: {{ toYaml $values.router.resources | nindent 4 }}
  securityContext: {{ include "spectrie.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - {name: {{ $prefix }}run, mountPath: /run/spectrie}
    - {name: {{ $prefix }}tmp, mountPath: /tmp}
    {{- if ne $values.state.kind "none" }}
    - {name: {{ $prefix }}state, mountPath: /var/lib/spectrie}
    {{- end }}
    {{- if $values.access.keysSecret }}
    - {name: {{ $prefix }}keys, mountPath: /etc/spectrie/keys, readOnly: true}
    {{- end }}
    {{- if $values.access.tlsSecret }}
    - {name: tls, mountPath: /etc/spectrie/tls, readOnly: true}
    {{- end }}
    {{- if eq $values.layout "split" }}
    - {name: worker-token, mountPath: /etc/spectrie/worker, readOnly: true}
    {{- end }}
{{- end }}
