import type { EngineDefinition, PluginDefinition } from "@keelson/middleware-agent";
import {
  parametersTemplate,
  roleServiceTemplate,
  tlsArguments,
  tlsMounts,
  tlsVolumes,
  volumeTemplate,
} from "@keelson/middleware-agent/templates";
import { PostgresEngine } from "./postgres-engine.ts";
import { debianFolder } from "./server/installation.ts";

/** The engine of PostgreSQL. */
export const postgresAgent: EngineDefinition = {
  name: "postgres",
  program: "postgres",
  port: 5_432,
  flags: [
    {
      name: "program-version",
      value: "VERSION",
      description: "major version of the program, where several are installed",
      default: "",
    },
    {
      name: "program-folder",
      value: "DIR",
      description: "directory with the programs of each major version in VERSION/bin",
      default: debianFolder,
    },
    {
      name: "program-login",
      value: "ROLE",
      description: "login of the password: one of the two of the superuser",
      env: "PROGRAM_LOGIN",
      default: "postgres",
    },
    {
      name: "run-as",
      value: "UID:GID",
      description: "user of the program if the agent runs as root; default: postgres of /etc/passwd, or 999:999",
      default: "",
    },
  ],
  create: (options) => new PostgresEngine(options),
};

/** The document of the PostgreSQL plugin. The facts were verified with PostgreSQL 15.18. */
const document = `# PostgreSQL: one primary and its streaming replicas, each with a volume.
kind: Plugin
spec:
  name: postgres
  version: 1.0.0
  description: PostgreSQL, one primary and its streaming replicas
  runtimes:
    - {name: postgres, versions: ["15", "16", "17", "18"]}
  images:
    "15": docker.io/library/postgres:15
    "16": docker.io/library/postgres:16
    "17": docker.io/library/postgres:17
    "18": docker.io/library/postgres:18
  compatibility:
    migrateFrom: {"16": ["15"], "17": ["15", "16"], "18": ["15", "16", "17"]}
    # Servers of different major versions do not replicate.
    stopFor: {"16": ["15"], "17": ["15", "16"], "18": ["15", "16", "17"]}
  configKey: postgresConfig
  # One password per role: a user has two login roles, of which one is disabled except during a rotation.
  users: {defaultLogin: postgres}
  components:
    - name: postgres
      groups:
        - {name: nodes, replicas: 3, storage: {size: 10Gi}}
  defaultConfig:
    wal_keep_size: 256MB
  warnings:
    - parameters: {fsync: "off"}
      message: "fsync is off: a crash of the machine can destroy all data"
    - parameters: {synchronous_commit: "off"}
      message: "synchronous_commit is off: a crash loses acknowledged transactions"
  # Parameters that the agent sets or that break replication. The running program decides about all others.
  parameters:
    archive_cleanup_command: forbidden
    config_file: forbidden
    data_directory: forbidden
    data_sync_retry: forbidden
    external_pid_file: forbidden
    full_page_writes: forbidden
    hba_file: forbidden
    hot_standby: forbidden
    ident_file: forbidden
    include: forbidden
    include_dir: forbidden
    include_if_exists: forbidden
    listen_addresses: forbidden
    port: forbidden
    primary_conninfo: forbidden
    primary_slot_name: forbidden
    promote_trigger_file: forbidden
    recovery_end_command: forbidden
    recovery_min_apply_delay: forbidden
    recovery_target: forbidden
    recovery_target_action: forbidden
    recovery_target_inclusive: forbidden
    recovery_target_lsn: forbidden
    recovery_target_name: forbidden
    recovery_target_time: forbidden
    recovery_target_timeline: forbidden
    recovery_target_xid: forbidden
    restore_command: forbidden
    ssl: forbidden
    ssl_ca_file: forbidden
    ssl_cert_file: forbidden
    ssl_key_file: forbidden
    unix_socket_directories: forbidden
    unix_socket_group: forbidden
    unix_socket_permissions: forbidden
    wal_level: forbidden
    max_connections: cold
    max_wal_senders: cold
    max_worker_processes: cold
    max_prepared_transactions: cold
    max_locks_per_transaction: cold
    shared_buffers: cold
    shared_preload_libraries: cold
    wal_buffers: cold
    work_mem: hot
    maintenance_work_mem: hot
    synchronous_standby_names: hot
    synchronous_commit: hot
    wal_keep_size: hot
    max_wal_size: hot
    max_slot_wal_keep_size: hot
  tls: true
  defaultValues:
    port: 5432
    agentPort: 50052
    program: postgres
    programFolder: /usr/lib/postgresql
    runAs: ""
    podSecurityContext: {}
  templates:
    - {name: pod, type: Pod, key: pod.yaml}
    - {name: config, type: ConfigMap, key: config.yaml}
    - {name: volume, type: PersistentVolumeClaim, key: volume.yaml}
    - {name: primary, type: Service, key: primary.yaml}
    - {name: replicas, type: Service, key: replicas.yaml}
`;

const pod = `{{- /* The agent starts the program and serves the controllers. */ -}}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 60
  {{- with .Values.podSecurityContext }}
  securityContext: {{ toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: postgres
      image: {{ .Image | default (printf "%s:%s" .Runtime.Name .Runtime.Version) | quote }}
      # The output of a program that does not start is the reason of a failed change.
      terminationMessagePolicy: FallbackToLogsOnError
      command: {{ toJson .Agent.Command }}
      args:
        - --engine=postgres
        - --program={{ .Values.program }}
        - --program-version={{ .Runtime.Version }}
        - --program-folder={{ .Values.programFolder }}
        - --program-port={{ .Values.port }}
        - --run-as={{ .Values.runAs }}
        - --port={{ .Values.agentPort }}
        - --config=/etc/middleware/parameters.json
        - --data-dir=/data
        ${tlsArguments}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: AGENT_TOKEN, valueFrom: {secretKeyRef: {name: {{ .AccessSecret }}, key: agentToken}}}
        - {name: PROGRAM_PASSWORD, valueFrom: {secretKeyRef: {name: {{ .AccessSecret }}, key: password}}}
        - {name: PROGRAM_LOGIN, valueFrom: {secretKeyRef: {name: {{ .AccessSecret }}, key: username, optional: true}}}
      ports:
        - {name: postgres, containerPort: {{ .Values.port }}, protocol: TCP}
        - {name: agent, containerPort: {{ .Values.agentPort }}, protocol: TCP}
      readinessProbe:
        tcpSocket: {port: {{ .Values.port }}}
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

/** The PostgreSQL plugin. */
export const postgresPlugin: PluginDefinition = {
  name: "postgres",
  version: "1.0.0",
  engines: [postgresAgent],
  data: {
    "plugin.yaml": document,
    "pod.yaml": pod,
    "config.yaml": parametersTemplate,
    "volume.yaml": volumeTemplate,
    "primary.yaml": roleServiceTemplate("primary", "primary", "postgres"),
    "replicas.yaml": roleServiceTemplate("replicas", "replica", "postgres"),
  },
};
