{{/* What every webhook of the configuration has: where it is called, and on what terms. Takes the root, path, and a timeout if not the
value's. */}}
{{- define "gpushare.webhook.call" -}}
admissionReviewVersions: [v1]
clientConfig:
  {{- if .root.Values.webhook.url }}
  url: {{ printf "%s%s" .root.Values.webhook.url .path | quote }}
  {{- else }}
  service:
    name: gpushare-webhook
    namespace: {{ .root.Release.Namespace | quote }}
    path: {{ .path }}
    port: 443
  {{- end }}
  {{- with .root.Values.webhook.caBundle }}
  caBundle: {{ . }}
  {{- end }}
timeoutSeconds: {{ .timeout | default .root.Values.webhook.timeoutSeconds }}
matchPolicy: Equivalent
sideEffects: None
{{- end }}

{{/* Namespaces that are never intercepted, by the label that the API server itself sets: nobody can
take it off. Kubernetes and we ourselves must start without us. */}}
{{- define "gpushare.webhook.exempt" -}}
{{- $exempt := list "kube-system" .Release.Namespace }}
{{- if .Values.teardown.jobs.enabled }}
{{- $exempt = append $exempt .Values.teardown.jobs.namespace }}
{{- end -}}
- {key: kubernetes.io/metadata.name, operator: NotIn, values: {{ $exempt | uniq | toJson }}}
{{- end }}

{{/* The kinds whose pods are known, by group and resource: those of Kubernetes with the path of the template, and others.
Of the chart's table and the user's the latter counts; one without templates is left out. What a webhook would not start with is
refused here. */}}
{{- define "gpushare.workloadKinds" -}}
{{- $seen := dict }}
{{- range .Values.webhook.workloadKinds }}
{{- $key := printf "%s.%s" .resource .group }}
{{- if hasKey $seen $key }}
{{- fail (printf "webhook.workloadKinds lists %s twice. Put its templates into one entry" $key) }}
{{- end }}
{{- $_ := set $seen $key true }}
{{- range $place := .templates }}
{{- range concat ($place.replicas | default list) ($place.metadata | default list) (without (list ($place.defaults | default "")) "") }}
{{- if gt (len (splitList "[*]" .)) (len (splitList "[*]" $place.path)) }}
{{- fail (printf "webhook.workloadKinds: %s of %s has more [*] than its path %s" . $key $place.path) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $known := dict "builtIn" dict "others" dict }}
{{- $rows := .Files.Get "files/workload-kinds.yaml" | required "files/workload-kinds.yaml is missing from the chart: run make workload-kinds" | fromYamlArray }}
{{- range concat $rows .Values.webhook.workloadKinds }}
{{- $of := get $known (contains "." .group | ternary "others" "builtIn") }}
{{- $resources := get $of .group | default dict }}
{{- if .templates }}
{{- $_ := set $resources .resource (first .templates).path }}
{{- else }}
{{- $_ := unset $resources .resource }}
{{- end }}
{{- if $resources }}
{{- $_ := set $of .group $resources }}
{{- else }}
{{- $_ := unset $of .group }}
{{- end }}
{{- end }}
{{- $known | toYaml }}
{{- end }}

{{- define "gpushare.webhook.namespaces" -}}
{{ include "gpushare.webhook.exempt" . }}
- {key: gpushare.io/inject, operator: NotIn, values: [disabled]}
{{- end }}

{{/* The expressions below are CEL. The API server has filled in each pod's defaults by then: what is
empty is absent, a quantity is a canonical string, and only a list of containers may be null. */}}

{{/* The pod template of one of Kubernetes' own workloads, by its path. Takes their kinds and the workload. */}}
{{- define "gpushare.cel.template" -}}
{{- $paths := dict }}
{{- range .kinds }}{{- range $resource, $path := . }}
{{- $_ := set $paths $path (append (get $paths $path | default list) $resource) }}
{{- end }}{{- end -}}
(
{{- range $path, $resources := omit $paths "spec.template" -}}
request.resource.resource in ['{{ sortAlpha $resources | join "', '" }}'] ? {{ $.object }}.{{ $path }} : {{ end -}}
{{ .object }}.spec.template)
{{- end }}

{{/* Whether some container of `pod` is as the given condition on `c` says. */}}
{{- define "gpushare.cel.container" -}}
[pod.spec.?containers.orValue([]), pod.spec.?initContainers.orValue([])]
.exists(list, list != null && list.exists(c, {{ . }}))
{{- end }}

{{/* Whether container `c` asks for a part of a GPU. */}}
{{- define "gpushare.cel.asks" -}}
['aliyun.com/gpu-mem', 'aliyun.com/gpu-core.percentage'].exists(r,
c.?resources.?limits[?r].orValue(c.?resources.?requests[?r].orValue('0')) != '0')
{{- end }}

{{/* Whether container `c` sets one of `variables`, and not to nothing. Time grows with the square of the
list: where it is longer than anybody's, the API server is spared and a warning is lost. */}}
{{- define "gpushare.cel.sets" -}}
has(c.env) && size(c.env) <= 1000 && c.env.exists(e, e.name in variables
&& (has(e.valueFrom) || !(e.?value.orValue('') in ['', 'none', 'void'])))
{{- end }}

{{/* Whether container `c` switches isolation off, or may do so once its variables are resolved; of
several values the kubelet takes the last. */}}
{{- define "gpushare.cel.unisolates" -}}
has(c.env) && (size(c.env) > 1000 || [c.env.filter(e, e.name == 'CGPU_DISABLE')].exists(found,
size(found) > 0 && [found[size(found) - 1]].exists(e, has(e.valueFrom)
|| e.?value.orValue('') in ['true', '1'] || e.?value.orValue('').contains('$('))))
{{- end }}

{{/* The variables by which `pod` says that it uses a GPU. A DaemonSet's pods, such as exporters, see every
card on purpose: nothing but a warning would come of the question, which no DaemonSet reads, and the pod
would be refused while no webhook answers. Whoever forges such an owner is spared the warning, no more. Of
owners, too, time grows with the square. */}}
{{- define "gpushare.cel.variables" -}}
[pod.?metadata.?ownerReferences.orValue([])].exists(owners, size(owners) <= 1000
&& owners.exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false)))
? ['CGPU_DISABLE'] : ['CGPU_DISABLE', 'NVIDIA_VISIBLE_DEVICES']
{{- end }}

{{/* Whether a pod, or a pod template, is any business of ours. What asks goes first: a long environment
then costs nothing of the API server's budget for the expression. */}}
{{- define "gpushare.cel.concerned" -}}
[{{ . }}].exists(pod,
{{ include "gpushare.cel.container" (include "gpushare.cel.asks" .) }}
|| [pod.?metadata.?annotations, pod.?metadata.?labels].exists(m, 'gpushare.io/pool' in m.orValue({}))
|| [{{ include "gpushare.cel.variables" . }}].exists(variables,
{{ include "gpushare.cel.container" (include "gpushare.cel.sets" .) }}))
{{- end }}
