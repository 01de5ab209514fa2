{{- /* A pod with router and worker. */ -}}
{{- define "spectrie.serverPod" -}}
automountServiceAccountToken: false
# preStop {{ .Values.router.preStopSeconds }} + drain {{ .Values.router.drainSeconds }} + {{ .Values.spareSeconds }} to spare.
terminationGracePeriodSeconds: {{ include "spectrie.grace" . }}
securityContext: {{ include "spectrie.podSecurity" . | nindent 2 }}
{{- include "spectrie.placement" . | nindent 0 }}
{{- include "spectrie.spread" (dict "root" . "part" "server") | nindent 0 }}
initContainers:
  {{- include "spectrie.preparation" . | nindent 2 }}
  {{- include "spectrie.worker" (dict "root" . "sidecar" true) | nindent 2 }}
containers:
  {{- include "spectrie.router" (dict "root" . "sidecar" false) | nindent 2 }}
volumes:
  {{- include "spectrie.volumes" (dict "root" . "router" true "worker" true) | nindent 2 }}
{{- end }}
