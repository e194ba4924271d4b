import type { PluginDefinition } from "@keelson/middleware-agent";
import {
  parametersTemplate,
  roleServiceTemplate,
  tlsArguments,
  tlsMounts,
  tlsVolumes,
  volumeTemplate,
} from "@keelson/middleware-agent/templates";
import { redisAgent } from "../agent/redis-agent.ts";
import { redisAlerts, redisPanels } from "../monitoring/redis-monitoring.ts";

/** The document of the Redis plugin. The facts were verified with Redis 6.0.16 and 7.0.15 and Valkey 8.0.1. */
const document = `# Redis and Valkey: one primary and its replicas, each with a volume.
kind: Plugin
spec:
  name: redis
  version: 1.0.0
  description: Redis or Valkey, one primary and its replicas
  runtimes:
    - {name: redis, versions: ["6.0", "6.2", "7.0", "7.2"]}
    - {name: valkey, versions: ["7.2", "8.0"]}
  images:
    "7.0": docker.io/library/redis:7.0
    "7.2": docker.io/library/redis:7.2
    "8.0": docker.io/valkey/valkey:8.0
  compatibility:
    migrateFrom:
      "7.0": ["6.0", "6.2", "7.0"]
      "7.2": ["6.0", "6.2", "7.0", "7.2"]
      "8.0": ["7.0", "7.2", "8.0"]
  configKey: redisConfig
  components:
    - name: redis
      groups:
        - {name: nodes, replicas: 3, storage: {size: 1Gi}}
  orders:
    provision: [redis]
    update: [redis]
    upgrade: [redis]
    stop: [redis]
  defaultConfig:
    appendonly: "yes"
    appendfsync: everysec
    repl-diskless-sync-delay: "0"
  warnings:
    - parameters: {appendonly: "no", save: ""}
      message: >-
        persistence is off (appendonly no, save ""): if all Pods stop at the same time, all data is lost
  # Parameters whose class must be known in advance. The running program decides about all others.
  parameters:
    bind: forbidden
    port: forbidden
    tls-port: forbidden
    tls-cert-file: forbidden
    tls-key-file: forbidden
    tls-ca-cert-file: forbidden
    tls-auth-clients: forbidden
    tls-replication: forbidden
    dir: forbidden
    dbfilename: forbidden
    replicaof: forbidden
    slaveof: forbidden
    # A replica that accepts writes would lose them, and one that announces another address could not be found.
    replica-read-only: forbidden
    slave-read-only: forbidden
    replica-announce-ip: forbidden
    replica-announce-port: forbidden
    slave-announce-ip: forbidden
    slave-announce-port: forbidden
    user: forbidden
    requirepass: forbidden
    masterauth: forbidden
    masteruser: forbidden
    daemonize: forbidden
    pidfile: forbidden
    logfile: forbidden
    unixsocket: forbidden
    cluster-enabled: forbidden
    protected-mode: forbidden
    rename-command: forbidden
    include: forbidden
    loadmodule: forbidden
    aclfile: forbidden
    maxmemory: hot
    maxmemory-policy: hot
    maxmemory-samples: hot
    timeout: hot
    tcp-keepalive: hot
    loglevel: hot
    hz: hot
    appendfsync: hot
    slowlog-log-slower-than: hot
    slowlog-max-len: hot
    notify-keyspace-events: hot
    min-replicas-to-write: hot
    min-replicas-max-lag: hot
    databases: cold
    io-threads: cold
    io-threads-do-reads: cold
    tcp-backlog: cold
    rdbchecksum: cold
    appendfilename: cold
    appenddirname: cold
    disable-thp: cold
    set-proc-title: cold
    always-show-logo: cold
  tls: true
  defaultValues:
    port: 6379
    tlsPort: 6380
    agentPort: 50052
    sentinelPort: 26379
    program: redis-server
  templates:
    - {name: pod, type: Pod, key: pod.yaml}
    - {name: config, type: ConfigMap, key: config.yaml}
    - {name: volume, type: PersistentVolumeClaim, key: volume.yaml}
    - {name: primary, type: Service, key: primary.yaml}
    - {name: replicas, type: Service, key: replicas.yaml}
    - {name: sentinel, type: Service, key: sentinel.yaml}
`;

const pod = `{{- /* The agent starts the program and serves the controllers. */ -}}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 30
  containers:
    - name: redis
      image: {{ .Image | default (printf "%s:%s" .Runtime.Name .Runtime.Version) | quote }}
      # The output of a program that does not start is the reason of a failed change.
      terminationMessagePolicy: FallbackToLogsOnError
      command: {{ toJson .Agent.Command }}
      args:
        - --engine=redis
        - --program={{ .Values.program }}
        - --program-port={{ .Values.port }}
        - --port={{ .Values.agentPort }}
        - --sentinel-port={{ .Values.sentinelPort }}
        - --config=/etc/middleware/parameters.json
        - --data-dir=/data
        ${tlsArguments}
        {{- if ne .Tls.Mode "disabled" }}
        - --tls-port={{ .Values.tlsPort }}
        {{- end }}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: AGENT_TOKEN, valueFrom: {secretKeyRef: {name: {{ .AccessSecret }}, key: agentToken}}}
        - {name: REDIS_PASSWORD, valueFrom: {secretKeyRef: {name: {{ .AccessSecret }}, key: password}}}
      ports:
        {{- if ne .Tls.Mode "require" }}
        - {name: redis, containerPort: {{ .Values.port }}, protocol: TCP}
        {{- end }}
        {{- if ne .Tls.Mode "disabled" }}
        - {name: redis-tls, containerPort: {{ .Values.tlsPort }}, protocol: TCP}
        {{- end }}
        - {name: agent, containerPort: {{ .Values.agentPort }}, protocol: TCP}
        - {name: sentinel, containerPort: {{ .Values.sentinelPort }}, protocol: TCP}
      readinessProbe:
        tcpSocket: {port: {{ if eq .Tls.Mode "require" }}{{ .Values.tlsPort }}{{ else }}{{ .Values.port }}{{ end }}}
        periodSeconds: 2
      {{- with .Resources }}
      resources: {{ toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: config, mountPath: /etc/middleware}
        ${tlsMounts}
  {{- with .Affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ .Instance.Name }}-config}
    ${tlsVolumes}
    - name: data
      {{- if .Storage }}
      persistentVolumeClaim: {claimName: {{ .Instance.Name }}-data}
      {{- else }}
      emptyDir: {}
      {{- end }}
`;

const sentinel = `metadata:
  name: {{ .Name }}-sentinel
spec:
  # Every agent knows the primary.
  selector:
    {{- toYaml .SelectorLabels | nindent 4 }}
  ports:
    - {name: sentinel, port: {{ .Values.sentinelPort }}, targetPort: {{ .Values.sentinelPort }}, protocol: TCP}
`;

/** The Redis plugin. */
export const redisPlugin: PluginDefinition = {
  name: "redis",
  version: "1.0.0",
  engines: [redisAgent],
  monitoring: { panels: redisPanels, alerts: redisAlerts },
  data: {
    "plugin.yaml": document,
    "pod.yaml": pod,
    "config.yaml": parametersTemplate,
    "volume.yaml": volumeTemplate,
    "primary.yaml": roleServiceTemplate("primary", "primary", "redis"),
    "replicas.yaml": roleServiceTemplate("replicas", "replica", "redis"),
    "sentinel.yaml": sentinel,
  },
};
