{{- /* Releases may have dots in their names; a Service may not, nor end in a dash where the name was cut. */ -}}
{{- define "spectrie.name" -}}
{{ .Values.name | default .Release.Name | replace "." "-" | trunc 40 | trimAll "-" }}
{{- end }}

{{- define "spectrie.selector" -}}
app.kubernetes.io/name: spectrie
app.kubernetes.io/instance: {{ include "spectrie.name" . }}
{{- end }}

{{- define "spectrie.labels" -}}
{{ include "spectrie.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end }}

{{- define "spectrie.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "spectrie.routerImage" -}}
{{ .Values.image.repository }}:{{ .Values.image.routerTag | default .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Whether both halves run beside an app, which alone reaches them. */ -}}
{{- define "spectrie.isBeside" -}}
{{- if or (eq .Values.layout "app") (eq .Values.layout "component") }}true{{ end }}
{{- end }}

{{- /* The prefix of our containers and volumes: an app may have a "router" or "tmp" of its own. */ -}}
{{- define "spectrie.prefix" -}}
{{- if include "spectrie.isBeside" . }}spectrie-{{ end }}
{{- end }}

{{- /* Whether a pod has a router and a worker that others call. */ -}}
{{- define "spectrie.isServer" -}}
{{- if or (eq .Values.layout "pod") (eq .Values.layout "kserve") }}true{{ end }}
{{- end }}

{{- /* KServe knows its predictor's container by this name. */ -}}
{{- define "spectrie.routerName" -}}
{{- if eq .Values.layout "kserve" }}kserve-container{{ else }}{{ include "spectrie.prefix" . }}router{{ end }}
{{- end }}

{{- /* Whether each replica has a claim for its state. */ -}}
{{- define "spectrie.hasClaim" -}}
{{- if and (eq .Values.state.kind "claim") (or (eq .Values.layout "pod") (eq .Values.layout "split")) }}true{{ end }}
{{- end }}

{{- /* The kubelet stops all containers within this time: hooks first, then the drain of each half that runs here. */ -}}
{{- define "spectrie.grace" -}}
{{- $own := add .Values.router.preStopSeconds .Values.router.drainSeconds .Values.spareSeconds -}}
{{- if include "spectrie.isBeside" . -}}
{{ add .Values.app.stopSeconds .Values.router.drainSeconds .Values.spareSeconds }}
{{- else -}}
{{ $own }}
{{- end -}}
{{- end }}
