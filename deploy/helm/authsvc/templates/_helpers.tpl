{{- define "authsvc.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "authsvc.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "authsvc.labels" -}}
{{ include "authsvc.selector" . }}
app.kubernetes.io/version: {{ include "authsvc.version" . | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "authsvc.version" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "authsvc.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "authsvc.name" .) }}
{{- end }}

{{/* The parts of a pod that all workloads share. */}}
{{- define "authsvc.podSpec" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.podSecurityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 256Mi}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "authsvc.container" -}}
image: "{{ .Values.image.repository }}:{{ include "authsvc.version" . }}{{ with .Values.image.digest }}@{{ . }}{{ end }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The settings as data of a ConfigMap. As JSON, because Helm's text of a number can have an exponent. */}}
{{- define "authsvc.settings" -}}
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}

{{/* The sources of variables, of which later ones win; the argument is the root and the name of the ConfigMap. */}}
{{- define "authsvc.sources" -}}
{{- $values := (index . 0).Values -}}
envFrom:
  - configMapRef: {name: {{ index . 1 }}}
  - secretRef: {name: {{ $values.existingSecret | quote }}}
  {{- with $values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "authsvc.hasMetrics" -}}
{{- if or .Values.metrics.enabled .Values.serviceMonitor.enabled }}true{{ end }}
{{- end }}

{{- define "authsvc.metricsSettings" -}}
{{- if include "authsvc.hasMetrics" . }}
- {name: AUTH_METRICS_ENABLED, value: "true"}
- {name: AUTH_METRICS_EXPORTER, value: prometheus}
- {name: OTEL_EXPORTER_PROMETHEUS_PORT, value: "9100"}
{{- end }}
{{- end }}

{{/* Pods restart when their settings change. The argument is the root and the component. */}}
{{- define "authsvc.podMetadata" -}}
{{- $root := index . 0 -}}
annotations:
  checksum/settings: {{ toJson $root.Values.settings | sha256sum }}
{{- with $root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "authsvc.labels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
  {{- with $root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
