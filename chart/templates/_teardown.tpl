{{/* What every Job of a teardown runs: the script comes with the release, and nothing in it is a value. JSON, which
is CEL too. */}}
{{- define "gpushare.teardown.command" -}}
{{- $script := .Files.Get "files/teardown.sh" | required "files/teardown.sh is missing from the chart: check it out again" }}
{{- list "nsenter" "--target" "1" "--mount" "--uts" "--ipc" "--net" "--pid" "--" "/bin/sh" "-c" $script "gpushare-teardown" | toJson }}
{{- end }}

{{/* Fields of a pod, whether its author, the API server or an admission plugin sets them. What is not here is
refused: init and ephemeral containers, volumes, resource claims, and what Kubernetes will add one day. */}}
{{- define "gpushare.teardown.podFields" -}}
['activeDeadlineSeconds', 'affinity', 'automountServiceAccountToken', 'containers', 'dnsPolicy', 'enableServiceLinks',
'hostPID', 'imagePullSecrets', 'nodeSelector', 'preemptionPolicy', 'priority', 'priorityClassName', 'restartPolicy',
'schedulerName', 'securityContext', 'serviceAccount', 'serviceAccountName', 'terminationGracePeriodSeconds',
'tolerations']
{{- end }}

{{/* The same of its container: no env, mounts, probes or hooks, all of which run or reach something. */}}
{{- define "gpushare.teardown.containerFields" -}}
['args', 'command', 'image', 'imagePullPolicy', 'name', 'resources', 'securityContext', 'terminationMessagePath',
'terminationMessagePolicy']
{{- end }}

{{- define "gpushare.teardown.jobFields" -}}
['activeDeadlineSeconds', 'backoffLimit', 'completionMode', 'completions', 'manualSelector', 'parallelism',
'podFailurePolicy', 'podReplacementPolicy', 'selector', 'suspend', 'template', 'ttlSecondsAfterFinished']
{{- end }}
