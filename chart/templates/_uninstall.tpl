{{- /* What becomes of the pools when the release is uninstalled: they go where their CRD does. */}}
{{- define "gpushare.uninstall.fate" -}}
{{ ternary "delete" "keep" (and .Values.crds.install (not .Values.crds.keep)) }}
{{- end }}

{{- /* To delete them takes the controller, so it is done before it goes; to let go of them, that it is gone. */}}
{{- define "gpushare.uninstall.event" -}}
{{ ternary "pre-delete" "post-delete" (eq (include "gpushare.uninstall.fate" .) "delete") }}
{{- end }}

{{- /* Takes the root, name, event and weight. */}}
{{- define "gpushare.uninstall.metadata" -}}
name: {{ .name }}
labels:
  {{- include "gpushare.labels" .root | nindent 2 }}
  app.kubernetes.io/component: uninstall
annotations:
  helm.sh/hook: {{ .event }}
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
