{{/* Parts of the expressions by which the API server chooses a pool: CEL, as in _admission.tpl. CEL can't name a value within an
expression, so `[value].exists(name, ...)` stands for that; a variable of the policy can't depend on a pool. The lists are the
program's, in alphabetical order. */}}

{{/* Whether the API server is to choose pools too: `auto` where it serves such policies. `helm template` knows what an API
server serves by --api-versions alone. */}}
{{- define "gpushare.admissionPolicy" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- ternary $served .Values.admissionPolicy.enabled (eq (toString .Values.admissionPolicy.enabled) "auto") }}
{{- end }}

{{- define "gpushare.policy.resources" -}}
['aliyun.com/gpu', 'aliyun.com/gpu-core.percentage', 'aliyun.com/gpu-mem', 'nvidia.com/gpu', 'nvidia.com/gpu.shared']
{{- end }}

{{/* Labels by which pods choose a pool by themselves. */}}
{{- define "gpushare.policy.choosing" -}}
['ack.node.gpu.schedule', 'cgpu', 'cgpu.disable.isolation', 'gpushare', 'gpushare.io/pool', 'nvidia.com/device-plugin.config']
{{- end }}

{{/* Labels of nodes that follow their pool and its mode. */}}
{{- define "gpushare.policy.following" -}}
['ack.node.gpu.schedule', 'cgpu', 'cgpu.disable.isolation', 'gpushare', 'gpushare.io/isolation-verified', 'gpushare.io/pool', 'nvidia.com/device-plugin.config']
{{- end }}

{{- define "gpushare.policy.heldByKueue" -}}
['JAXJob', 'Job', 'MPIJob', 'PaddleJob', 'PyTorchJob', 'RayCluster', 'TFJob', 'XGBoostJob']
{{- end }}

{{- define "gpushare.policy.admittedByKueue" -}}
['kueue.x-k8s.io/cluster-queue-name', 'kueue.x-k8s.io/local-queue-name', 'kueue.x-k8s.io/podset']
{{- end }}

{{/* Whether container `c` asks for a part of a GPU, and switches isolation off. */}}
{{- define "gpushare.policy.disables" -}}
{{ include "gpushare.cel.asks" . }} && has(c.env) && size(c.env) <= 1000
&& [c.env.filter(e, e.name == 'CGPU_DISABLE')].exists(found,
size(found) > 0 && found[size(found) - 1].?value.orValue('') in ['true', '1'])
{{- end }}

{{/* Whether requirement `q` of a label selector is met by `labels`. */}}
{{- define "gpushare.policy.selects" -}}
q.operator == 'In' ? q.key in labels && labels[q.key] in q.values
: q.operator == 'NotIn' ? !(q.key in labels) || !(labels[q.key] in q.values)
: (q.key in labels) == (q.operator == 'Exists')
{{- end }}

{{/* Whether requirement `.r` of a node affinity admits the label value `.v`. */}}
{{- define "gpushare.policy.admits" -}}
({{ .r }}.operator in ['In', 'NotIn'] ? ({{ .v }} in {{ .r }}.?values.orValue([])) == ({{ .r }}.operator == 'In')
: {{ .r }}.operator in ['Gt', 'Lt'] ? size({{ .r }}.?values.orValue([])) == 1
&& [{{ .v }}, {{ .r }}.values[0]].all(text, text.matches('^[+-]?[0-9]{1,18}$'))
&& ({{ .r }}.operator == 'Gt' ? int({{ .v }}) > int({{ .r }}.values[0]) : int({{ .v }}) < int({{ .r }}.values[0]))
: {{ .r }}.operator == 'Exists')
{{- end }}

{{/* The values that label `key` may have on nodes of pool `p` of kind `n`, as an optional list: none where any is possible,
empty where the label is absent. */}}
{{- define "gpushare.policy.values" -}}
n[?{{ . }}].or(p.?labels[?{{ . }}]).or(variables.selectsByMode && {{ . }} in {{ include "gpushare.policy.following" . }}
? optional.of({{ . }} == 'gpushare.io/pool' ? [p.name]
: {{ . }} == 'gpushare.io/isolation-verified' ? (params.spec.modes[p.mode].isolatesByKernel ? ['true'] : [])
: params.spec.modes[p.mode].labels[?{{ . }}].optMap(v, [v]).orValue([])) : optional.none())
{{- end }}

{{/* Whether a node of pool `p` of kind `n` may match the pod's selection. Of several values of a label one must satisfy all
that the term requires of it. */}}
{{- define "gpushare.policy.mayMatch" -}}
variables.selector.all(key, [{{ include "gpushare.policy.values" "key" }}].exists(found,
!found.hasValue() || variables.selector[key] in found.value()))
&& (!variables.hasTerms || variables.terms.exists(t, t.all(r, [{{ include "gpushare.policy.values" "r.key" }}].exists(found,
!found.hasValue() || (size(found.value()) == 0 ? r.operator in ['NotIn', 'DoesNotExist']
: found.value().exists(v, {{ include "gpushare.policy.admits" (dict "r" "r" "v" "v") }}
&& (size(found.value()) == 1 || t.all(q, q.key != r.key || {{ include "gpushare.policy.admits" (dict "r" "q" "v" "v") }}))))))))
{{- end }}

{{/* Whether such a node certainly matches. */}}
{{- define "gpushare.policy.matches" -}}
variables.selector.all(key, [{{ include "gpushare.policy.values" "key" }}].exists(found,
found.hasValue() && found.value() == [variables.selector[key]]))
&& (!variables.hasTerms || variables.terms.exists(t, t.all(r, [{{ include "gpushare.policy.values" "r.key" }}].exists(found,
!found.hasValue() ? r.key in ['metadata.name', 'kubernetes.io/hostname'] && r.operator in ['NotIn', 'DoesNotExist']
: size(found.value()) == 0 ? r.operator in ['NotIn', 'DoesNotExist']
: found.value().all(v, {{ include "gpushare.policy.admits" (dict "r" "r" "v" "v") }})))))
{{- end }}

{{/* What the pod asks for, and whether admission has to choose for it: variables of both policies. */}}
{{- define "gpushare.policy.request" -}}
- name: selector
  expression: object.spec.?nodeSelector.orValue({})
# Node affinity, as lists of requirements; a term without any matches no node.
- name: writtenTerms
  expression: >-
    object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])
    .map(t, t.?matchExpressions.orValue([]) + t.?matchFields.orValue([])).filter(t, size(t) > 0)
# What they require of labels whose values the node selector does not determine.
- name: terms
  expression: >-
    variables.writtenTerms.filter(t, t.all(r, !(r.key in variables.selector)
    ||
    {{- include "gpushare.policy.admits" (dict "r" "r" "v" "variables.selector[r.key]") | nindent 4 }}))
    .map(t, t.filter(r, !(r.key in variables.selector)))
- name: hasTerms
  expression: object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.hasValue()
- name: goesAnywhere
  expression: size(variables.selector) == 0 && !variables.hasTerms
# GPU resources that the pod requests, joined as in the table's `serves`.
- name: asked
  expression: >-
    [object].map(pod, {{ include "gpushare.policy.resources" . }}.filter(r,
    {{- include "gpushare.cel.container" "c.?resources.?limits[?r].orValue(c.?resources.?requests[?r].orValue('0')) != '0'" | nindent 4 }}))[0].join('+')
- name: asksForShare
  expression: variables.asked.contains('gpu-mem') || variables.asked.contains('gpu-core')
- name: named
  expression: object.metadata.?annotations[?'gpushare.io/pool'].orValue('')
- name: isolation
  expression: object.metadata.?annotations[?'gpushare.io/isolation'].orValue('')
- name: requiresIsolation
  expression: variables.asksForShare && variables.isolation == 'required'
- name: disablesIsolation
  expression: >-
    [object].exists(pod,
    {{- include "gpushare.cel.container" (include "gpushare.policy.disables" .) | nindent 4 }}
    && !{{ include "gpushare.cel.container" (printf "(%s) && !(%s)" (include "gpushare.cel.asks" .) (include "gpushare.policy.disables" .)) | nindent 4 }})
# Who else places the pod, or holds it back until the node labels are known.
- name: isPlaced
  expression: >-
    object.spec.?nodeName.orValue('') != ''
    || object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false))
    || 'kubernetes.io/hostname' in variables.selector
    || variables.writtenTerms.exists(t, t.exists(r, r.operator == 'In' && r.key in ['metadata.name', 'kubernetes.io/hostname']))
- name: kueueMarks
  expression: >-
    (object.metadata.?labels.orValue({}).map(key, key) + object.spec.?schedulingGates.orValue([]).map(g, g.name))
    .filter(key, key.startsWith('kueue.x-k8s.io/'))
- name: isHeldByKueue
  expression: >-
    size(variables.kueueMarks) > 0 && !(
    object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)
    && o.kind in {{ include "gpushare.policy.heldByKueue" . }})
    ? variables.kueueMarks.all(key, key in object.metadata.?labels.orValue({}))
    : variables.kueueMarks.all(key, key in {{ include "gpushare.policy.admittedByKueue" . }}))
- name: choosesByItself
  expression: >-
    {{ include "gpushare.policy.choosing" . }}.exists(key, key in variables.selector
    || variables.writtenTerms.exists(t, t.exists(r, r.key == key && !(r.operator in ['NotIn', 'DoesNotExist']))))
- name: isLeftToAdmission
  expression: >-
    (variables.asksForShare || variables.named != '' && variables.asked != '')
    && object.metadata.?annotations[?'gpushare.io/inject'].orValue('') != 'disabled'
    && object.spec.?schedulerName.orValue('default-scheduler') in {{ .Values.webhook.schedulers | toJson }}
    && !variables.isPlaced && !variables.isHeldByKueue && !variables.choosesByItself
{{- end }}

{{/* The pods that concern both policies. */}}
{{- define "gpushare.policy.match" -}}
matchConstraints:
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
      operations: [CREATE]
      scope: Namespaced
  namespaceSelector:
    matchExpressions:
      {{- include "gpushare.webhook.namespaces" . | nindent 6 }}
matchConditions:
  - name: asks-for-gpu-of-a-pool
    expression: >-
      [object].exists(pod,
      {{- include "gpushare.cel.container" (include "gpushare.cel.asks" .) | nindent 6 }}
      || 'gpushare.io/pool' in pod.metadata.?annotations.orValue({}))
{{- end }}

{{/* A pod that has a decision was here before, or a webhook found no pool for it. */}}
{{- define "gpushare.policy.undecided" -}}
- name: is-undecided
  expression: "!('gpushare.io/decision' in object.metadata.?annotations.orValue({}))"
{{- end }}
