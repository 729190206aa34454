{{/* Labels of every object but the component's. */}}
{{- define "gpushare.labels" -}}
{{- omit (include "gpushare.labelsWith" (dict "root" . "component" "" "labels" dict) | fromYaml) "app.kubernetes.io/component" | toYaml }}
{{- end }}

{{/* Labels of an object that has some of its own. Takes the root, component and labels. The chart's go first. */}}
{{- define "gpushare.labelsWith" -}}
{{- $ours := dict
  "app.kubernetes.io/name" "gpushare-operator"
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/part-of" "gpushare"
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/component" .component
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) }}
{{- merge $ours .labels .root.Values.commonLabels | toYaml }}
{{- end }}

{{/* Labels that a Deployment and its Service select on. Takes the component's name and the root. */}}
{{- define "gpushare.selector" -}}
app.kubernetes.io/name: gpushare-operator
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* An image's reference. Takes its values. */}}
{{- define "gpushare.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end }}

{{/* Rather in different zones. Not a second topology spread constraint: the scheduler passes over the nodes that lack
the label of any of them, so that where nodes have no zone their hosts would not count either. */}}
{{- define "gpushare.zones" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.kubernetes.io/zone
        labelSelector:
          matchLabels:
            {{- include "gpushare.selector" . | nindent 12 }}
{{- end }}

{{/* The program's own image. */}}
{{- define "gpushare.ownImage" -}}
{{ include "gpushare.image" (merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image) }}
{{- end }}

{{/* Rather not on GPU nodes, which the operator cordons: by the labels of ACK, of NVIDIA's feature discovery, and its own. */}}
{{- define "gpushare.offGpus" -}}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - {key: aliyun.accelerator/nvidia_name, operator: DoesNotExist}
          - {key: nvidia.com/gpu.present, operator: DoesNotExist}
          - {key: gpushare.io/pool, operator: DoesNotExist}
{{- end }}

{{/* Where the program's pods may run. Takes the root, the affinity, and values of the component that go before all. */}}
{{- define "gpushare.placement" -}}
{{- $given := pick .root.Values "imagePullSecrets" "nodeSelector" "tolerations" "dnsConfig" }}
{{- range $key, $value := pick .values "nodeSelector" "tolerations" }}
{{- if $value }}
{{- $_ := set $given $key $value }}
{{- end }}
{{- end }}
{{- range $key, $value := merge (dict "affinity" (merge .affinity (include "gpushare.offGpus" . | fromYaml))) $given }}
{{- with $value }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* What Pod Security restricted asks of a pod, and of its container. */}}
{{- define "gpushare.podSecurity" -}}
runAsNonRoot: true
{{- if .Values.fixedUser }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "gpushare.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* One process role. Takes the root, component, role, and values of the component. */}}
{{- define "gpushare.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gpushare-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "gpushare.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .values.replicas }}
  {{- if eq .role "webhook" }}
  # A new one is ready before an old one goes.
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  {{- end }}
  selector:
    matchLabels:
      {{- include "gpushare.selector" . | nindent 6 }}
  template:
    metadata:
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      labels:
        {{- include "gpushare.labelsWith" (dict "root" .root "component" .component "labels" .root.Values.podLabels) | nindent 8 }}
    spec:
      serviceAccountName: gpushare-{{ .component }}
      automountServiceAccountToken: true
      # Else the kubelet tells of every Service of the namespace in variables, some of which would be settings: that of
      # Service gpushare-webhook has GPUSHARE_WEBHOOK_PORT.
      enableServiceLinks: false
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- $affinity := merge (deepCopy .root.Values.affinity) (include "gpushare.zones" . | fromYaml) }}
      {{- with include "gpushare.placement" (dict "root" .root "affinity" $affinity "values" .values) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range .values.topologySpreadConstraints }}
        - {{- merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" (include "gpushare.selector" $ | fromYaml))) | toYaml | nindent 10 }}
        {{- else }}
        # Better two on one host than one that waits for another.
        - topologyKey: kubernetes.io/hostname
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          # Those of an older release go anyway.
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- include "gpushare.selector" . | nindent 14 }}
        {{- end }}
      {{- if eq .role "controller" }}
      # On SIGTERM it lets go of its Lease and ends within 10 s, whatever the API server does.
      terminationGracePeriodSeconds: 20
      {{- else }}
      # No preStop hook: on SIGTERM the process itself goes on answering for drainSeconds.
      terminationGracePeriodSeconds: {{ add .root.Values.webhook.drainSeconds 30 }}
      {{- end }}
      securityContext:
        {{- include "gpushare.podSecurity" .root | nindent 8 }}
      containers:
        - name: gpushare
          image: {{ include "gpushare.ownImage" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [{{ .role }}]
          env:
            - name: GPUSHARE_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: GPUSHARE_IDENTITY
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: GPUSHARE_PLUGIN_NAMESPACE
              value: {{ .root.Values.pluginNamespace | quote }}
            - name: GPUSHARE_NVIDIA_NAMESPACE
              value: {{ .root.Values.nvidia.namespace | quote }}
            - name: GPUSHARE_METRICS_PORT
              value: {{ .root.Values.metricsPort | quote }}
            - name: GPUSHARE_SCHEDULERS
              value: {{ .root.Values.webhook.schedulers | toJson | quote }}
            {{- if ne .role "controller" }}
            - name: GPUSHARE_WORKLOAD_KINDS
              value: {{ .root.Values.webhook.workloadKinds | toJson | quote }}
            - name: GPUSHARE_WEBHOOK_PORT
              value: {{ .root.Values.webhook.port | quote }}
            - name: GPUSHARE_CERTIFICATE_MODE
              value: {{ .root.Values.webhook.certificate.mode | quote }}
            - name: GPUSHARE_CERTIFICATE_LIFETIME_SECONDS
              value: {{ int64 .root.Values.webhook.certificate.lifetimeSeconds | quote }}
            - name: GPUSHARE_AUTHORITY_LIFETIME_SECONDS
              value: {{ int64 .root.Values.webhook.certificate.authorityLifetimeSeconds | quote }}
            - name: GPUSHARE_WEBHOOK_REPLICAS
              value: {{ max 1 .values.replicas | quote }}
            - name: GPUSHARE_ON_NO_POOL
              value: {{ .root.Values.webhook.onNoPool | quote }}
            - name: GPUSHARE_STALE_SECONDS
              value: {{ .root.Values.webhook.staleSeconds | quote }}
            - name: GPUSHARE_DRAIN_SECONDS
              value: {{ .root.Values.webhook.drainSeconds | quote }}
            - name: GPUSHARE_MAX_CALLS_IN_FLIGHT
              value: {{ .root.Values.webhook.maxCallsInFlight | quote }}
            {{- end }}
            {{- if ne .role "webhook" }}
            - name: GPUSHARE_ADMISSION_TABLE
              value: {{ include "gpushare.admissionPolicy" .root | quote }}
            - name: GPUSHARE_ALLOW_EVICTION
              value: {{ .root.Values.eviction.enabled | quote }}
            - name: GPUSHARE_MAX_JOINS
              value: {{ .root.Values.controller.maxJoins | quote }}
            - name: GPUSHARE_MEMORY_UNIT
              value: {{ .root.Values.memoryUnit | quote }}
            - name: GPUSHARE_NODE_LABEL_KEYS
              value: {{ .root.Values.nodeLabelKeys | toJson | quote }}
            - name: GPUSHARE_PLUGIN_DAEMONSETS
              value: {{ .root.Values.pluginDaemonSets | toJson | quote }}
            - name: GPUSHARE_RESOURCE_SETTLE_SECONDS
              value: {{ .root.Values.controller.resourceSettleSeconds | quote }}
            - name: GPUSHARE_PER_APPLICATION_METRICS
              value: {{ .root.Values.metrics.perApplication | quote }}
            - name: GPUSHARE_PER_NODE_METRICS
              value: {{ .root.Values.metrics.perNode | quote }}
            {{- with .root.Values.teardown.jobs }}
            {{- if .enabled }}
            - name: GPUSHARE_ALLOW_TEARDOWN_JOBS
              value: "true"
            - name: GPUSHARE_TEARDOWN_NAMESPACE
              value: {{ .namespace | quote }}
            - name: GPUSHARE_TEARDOWN_IMAGE
              value: {{ include "gpushare.image" .image | quote }}
            {{- end }}
            {{- end }}
            {{- end }}
            - name: GPUSHARE_LOG_LEVEL
              value: {{ .root.Values.logLevel | quote }}
          ports:
            - {name: metrics, containerPort: {{ .root.Values.metricsPort }}}
            {{- if ne .role "controller" }}
            - {name: webhook, containerPort: {{ .root.Values.webhook.port }}}
            {{- end }}
          # It serves all of them from its start on, whether the API server answers or not.
          startupProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 1
            timeoutSeconds: 2
            failureThreshold: 60
          # What a restart would mend: a loop that stands still, a watch that is open and hears nothing.
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            # After a freeze, as of a paused machine, a watch is heard of again within 20 s.
            failureThreshold: 6
          # A controller that stands by is ready as well, once its caches are filled.
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 2
            timeoutSeconds: 2
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "gpushare.containerSecurity" . | nindent 12 }}
          volumeMounts:
            # Keys pass through a file on their way into TLS; this one is memory.
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: tmp
          emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}
