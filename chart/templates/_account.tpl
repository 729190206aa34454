{{/* What holds an account to what its process does, whichever token and rights are used. */}}

{{/* The keys in which two maps differ, those that came or changed, and those that went, but for what may: a condition on
`key`, asked first, since to compare is dear (managedFields are most of a Node). Takes new, old and may. */}}
{{- define "gpushare.cel.changed" -}}
{{ .new }}.filter(key, !({{ .may }}) && (!(key in {{ .old }}) || {{ .old }}[key] != {{ .new }}[key]))
+ {{ .old }}.filter(key, !({{ .may }}) && !(key in {{ .new }}))
{{- end }}

{{/* The keys of an object's metadata in which it differs from the old one, but for those that may, and those that the
API server keeps itself. Takes a list. */}}
{{- define "gpushare.cel.otherMetadata" -}}
{{- $may := printf "key in ['%s']" (concat . (list "managedFields" "resourceVersion" "generation") | join "', '") }}
{{- include "gpushare.cel.changed" (dict "new" "dyn(object.metadata)" "old" "dyn(oldObject.metadata)" "may" $may) }}
{{- end }}

{{/* Which calls a policy looks at. Takes group, version, resource, namespace and accounts. */}}
{{- define "gpushare.account.spec" -}}
failurePolicy: Fail
matchConstraints:
  resourceRules:
    - apiGroups: [{{ .group | quote }}]
      apiVersions: [{{ .version }}]
      resources: [{{ .resource }}, {{ .resource }}/*]
      operations: ["*"]
      scope: "*"
matchConditions:
  - name: is-one-of-our-accounts
    expression: request.userInfo.username in [
      {{- range $index, $account := .accounts }}{{ if $index }}, {{ end }}'system:serviceaccount:{{ $.namespace }}:{{ $account }}'{{ end }}]
{{- end }}

{{/* Puts a policy in force. Takes its name, the component and the root. */}}
{{- define "gpushare.account.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "gpushare.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

{{/* Whether the controller's account is the only one: there is no webhook, or one process in the cluster has both roles. Outside of it each process
may still ask for a token of its role's account. */}}
{{- define "gpushare.oneAccount" -}}
{{ or (not .Values.webhook.enabled) (and .Values.deploy .Values.allInOne) }}
{{- end }}

{{/* Who has the webhook's rights. */}}
{{- define "gpushare.webhookSubjects" -}}
{{- if ne (include "gpushare.oneAccount" .) "true" }}
- {kind: ServiceAccount, name: gpushare-webhook, namespace: {{ .Release.Namespace | quote }}}
{{- end }}
{{- if .Values.allInOne }}
- {kind: ServiceAccount, name: gpushare-controller, namespace: {{ .Release.Namespace | quote }}}
{{- end }}
{{- end }}
