{{- define "authsvc.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "authsvc.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "authsvc.labels" -}}
{{ include "authsvc.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
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
{{- end }}

{{- define "authsvc.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "authsvc.environment" -}}
envFrom:
  - configMapRef: {name: {{ include "authsvc.name" . }}}
  - secretRef: {name: {{ .Values.existingSecret }}}
{{- end }}

{{- define "authsvc.metricsSettings" -}}
{{- if .Values.serviceMonitor.enabled }}
- {name: AUTH_METRICS_ENABLED, value: "true"}
- {name: AUTH_METRICS_EXPORTER, value: prometheus}
{{- end }}
{{- end }}

{{/* Pods restart when their settings change. */}}
{{- define "authsvc.podMetadata" -}}
annotations:
  checksum/settings: {{ toJson .Values.settings | sha256sum }}
{{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
