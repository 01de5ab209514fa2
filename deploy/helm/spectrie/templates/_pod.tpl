{{- /* What the "restricted" level asks of a pod. */ -}}
{{- define "spectrie.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* What it asks of a container; user and seccomp again, for pods whose own context is somebody else's. */ -}}
{{- define "spectrie.containerSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Where a pod goes. */ -}}
{{- define "spectrie.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "spectrie.spread" -}}
{{- with .root.Values.spreadOver }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ . | quote }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "spectrie.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.part }}
{{- end }}
{{- end }}

{{- /* Volumes of a pod with these halves. Dict: root, router, worker (booleans). */ -}}
{{- define "spectrie.volumes" -}}
{{- $values := .root.Values }}
{{- $prefix := include "spectrie.prefix" .root }}
{{- if .router }}
- name: {{ $prefix }}run
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
{{- end }}
- name: {{ $prefix }}tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if and (ne $values.state.kind "none") (not (include "spectrie.hasClaim" .root)) }}
- name: {{ $prefix }}state
  emptyDir: {sizeLimit: {{ $values.state.size }}}
{{- end }}
{{- if .worker }}
- name: {{ $prefix }}cache
  {{- if $values.cache.claim }}
  persistentVolumeClaim: {claimName: {{ $values.cache.claim | quote }}}
  {{- else }}
  emptyDir: {sizeLimit: {{ $values.cache.sizeLimit }}}
  {{- end }}
{{- if include "spectrie.usesModels" .root }}
- name: {{ $prefix }}models
  persistentVolumeClaim: {claimName: {{ $values.model.claim | quote }}, readOnly: true}
{{- end }}
{{- if gt (int $values.worker.gpus) 1 }}
- name: {{ $prefix }}shm
  emptyDir: {medium: Memory, sizeLimit: 1Gi}
{{- end }}
{{- end }}
{{- with $values.access.keysSecret }}
{{- if $.router }}
- name: {{ $prefix }}keys
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with $values.access.tlsSecret }}
{{- if $.router }}
- name: tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- else }}
- name: authority
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}
{{- if eq $values.layout "split" }}
- name: worker-token
  secret: {secretName: {{ $values.access.workerTokenSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* One claim for each replica. */ -}}
{{- define "spectrie.claims" -}}
{{- if include "spectrie.hasClaim" . }}
volumeClaimTemplates:
  - metadata: {name: state}
    spec:
      accessModes: [ReadWriteOncePod]
      {{- with .Values.state.storageClass }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources: {requests: {storage: {{ .Values.state.size }}}}
{{- end }}
{{- end }}
