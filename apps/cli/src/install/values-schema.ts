import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import type { FlagDefinition, Operator } from "@keelson/operator";
import { type TSchema, Type } from "typebox";

/** Type of a map with any entries. */
const map = (description: string): TSchema => Type.Object({}, { description, default: {}, additionalProperties: true });
const list = (description: string): TSchema =>
  Type.Array(Type.Object({}, { additionalProperties: true }), { description, default: [] });
const texts = (description: string): TSchema => Type.Array(Type.String(), { description, default: [] });
const text = (description: string, byDefault: string): TSchema => Type.String({ description, default: byDefault });
const flag = (description: string, byDefault: boolean): TSchema => Type.Boolean({ description, default: byDefault });
const choice = (description: string, choices: readonly string[], byDefault: string): TSchema =>
  Type.Unsafe<string>({ type: "string", enum: [...choices], description, default: byDefault });
const group = (description: string, properties: Record<string, TSchema>): TSchema =>
  Type.Object(properties, { description, additionalProperties: false });

const name = (description: string, byDefault: string): TSchema =>
  Type.String({ description, default: byDefault, pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" });

const resources = (memoryRequest: string, memoryLimit: string): TSchema =>
  Type.Object(
    {},
    {
      description: "requests and limits of the container",
      default: { requests: { cpu: "20m", memory: memoryRequest }, limits: { memory: memoryLimit } },
      additionalProperties: true,
    },
  );

/**
 * The JSON schema of the chart's values, which are also those of `keelson install --values`. Every leaf has a description and a default.
 * `version` is the default tag of the image.
 */
export function valuesSchema(operators: readonly Operator[], version: string): TSchema {
  const families = Object.fromEntries(operators.map((operator) => [operator.name, familySchema(operator, version)]));
  return group("Values of the Keelson chart.", {
    // Helm adds these to the values of a chart that is a dependency.
    global: map("values that a parent chart shares; not used"),
    image: group("Image of the operators.", {
      repository: text("image without its tag", "keelson/keelson"),
      tag: text("tag, optionally with a digest: 0.1.0@sha256:...", version),
      pullPolicy: choice("when the image is pulled", ["IfNotPresent", "Always", "Never"], "IfNotPresent"),
    }),
    imagePullSecrets: list("Secrets of the registry: [{name: registry}]"),
    namespace: group("The namespace of the operators.", {
      create: flag("create the namespace, with the Pod Security level `restricted`; not with `helm --create-namespace`", false),
    }),
    crds: group("The CustomResourceDefinitions.", {
      install: flag("install and upgrade the CustomResourceDefinitions of the enabled operators", true),
      keep: flag("keep them, and so all user objects, when the chart is uninstalled with Helm", true),
    }),
    rbac: group("Roles for users.", {
      aggregate: flag("add the permissions on the custom kinds to the ClusterRoles view, edit and admin", true),
    }),
    bindAddress: Type.String({
      description:
        "listen address of the operators' servers; `::` for IPv6; `$(POD_IP)` on the node of `keelson up`, whose Pods share an address space",
      default: "0.0.0.0",
      minLength: 1,
    }),
    logLevel: choice("minimum level of log lines", ["debug", "info", "warn", "error", "silent"], "info"),
    metrics: metricsSchema(),
    networkPolicy: group("A NetworkPolicy per operator.", {
      enabled: flag("allow connections to the operators' own ports only", true),
    }),
    podDisruptionBudget: group("A PodDisruptionBudget per operator.", {
      enabled: flag("allow drains to evict one replica at a time", true),
    }),
    topologySpread: group("Spreading of replicas.", { enabled: flag("prefer different nodes for replicas", true) }),
    podLabels: map("additional labels of the operators' Pods"),
    podAnnotations: map("annotations of the operators' Pods"),
    nodeSelector: map("node selector of the operators' Pods"),
    tolerations: list("tolerations of the operators' Pods"),
    affinity: map("affinity of the operators' Pods"),
    priorityClassName: text("priority class of the operators' Pods", ""),
    runtimeClassName: text("runtime class of the operators' Pods; `containerd` on the node of `keelson up`", ""),
    ...families,
  });
}

function metricsSchema(): TSchema {
  return group("Prometheus metrics.", {
    enabled: flag("serve /metrics to users that may `get` the nonResourceURL /metrics", true),
    tls: group("TLS of /metrics.", {
      enabled: flag("serve /metrics over TLS", true),
      secret: text(
        "Secret of type `kubernetes.io/tls` with the certificate, and `ca.crt` for the ServiceMonitor; default: self-signed certificates, which the ServiceMonitor does not verify",
        "",
      ),
    }),
    serviceMonitor: group("A ServiceMonitor per operator; requires the Prometheus Operator.", {
      enabled: flag("create ServiceMonitors", false),
      interval: text("scrape interval", "30s"),
      labels: map("labels that the Prometheus selects ServiceMonitors by"),
    }),
    rules: group("A PrometheusRule with alert rules per operator; requires the Prometheus Operator.", {
      enabled: flag("create PrometheusRules", false),
      labels: map("labels that the Prometheus selects rules by"),
    }),
    dashboards: group("A ConfigMap with a dashboard of Grafana per operator.", {
      enabled: flag("create dashboards", false),
      labels: Type.Object(
        {},
        {
          description: "labels that Grafana's sidecar selects ConfigMaps by",
          default: { grafana_dashboard: "1" },
          additionalProperties: true,
        },
      ),
    }),
  });
}

function familySchema(
  { name: family, description, deployment = {}, flags: own = [], servers }: Operator,
  version: string,
): TSchema {
  const { singleReplicaReason, settings = [], ports = [], toolImage } = deployment;
  const flags = [...own, ...servers.flatMap((server) => server.flags ?? [])];
  return group(`Operator ${family}: ${description}.`, {
    enabled: flag("install this operator", true),
    replicas: Type.Integer({
      description:
        singleReplicaReason === undefined ? "replicas; one leads, the others stand by" : `0 or 1: ${singleReplicaReason}`,
      default: singleReplicaReason === undefined ? 2 : 1,
      minimum: 0,
      ...(singleReplicaReason === undefined ? {} : { maximum: 1 }),
    }),
    resources: resources("128Mi", "512Mi"),
    extraArgs: texts("additional flags of `keelson operator`"),
    ...(toolImage === undefined
      ? {}
      : {
          toolImage: text(
            `image with the programs of the Pods that this operator creates${toolImage.name === undefined ? " (default: `image`)" : ""}`,
            toolImage.name === undefined ? "" : `keelson/${toolImage.name}:${version}`,
          ),
        }),
    ...Object.fromEntries(settings.map((setting) => [setting.name, settingSchema(setting.flag, flags)])),
    ...(ports.length === 0
      ? {}
      : {
          service: group("The Service of the operator's ports.", {
            type: choice("type of the Service", ["ClusterIP", "NodePort", "LoadBalancer"], "ClusterIP"),
            annotations: map("annotations of the Service"),
          }),
        }),
    ...familyValues[family],
  });
}

/** Values that only one family has. */
const familyValues: Readonly<Record<string, Readonly<Record<string, TSchema>>>> = {
  robots: {
    broker: group("The MQTT broker. By default the operator runs its own.", {
      kind: choice(
        "embedded, mosquitto (runs Mosquitto in the cluster) or external",
        ["embedded", "mosquitto", "external"],
        "embedded",
      ),
      url: text("URL of an external broker: mqtts://broker.example:8883", ""),
      credentialsSecret: text(
        "Secret with the operator's user name and password at the broker (keys `username`, `password`)",
        "",
      ),
      mosquitto: group("Mosquitto, for `kind: mosquitto`.", {
        image: text("image of Mosquitto", "eclipse-mosquitto:2.0.22"),
        passwordSecret: text("Secret with a file of `mosquitto_passwd` (key `passwords`)", ""),
        resources: resources("32Mi", "128Mi"),
      }),
    }),
    exec: group("The server of `keelson robots exec`, for users with permission to create `tasks/exec`.", {
      enabled: flag("run the server on port 8443 of its own Service, over TLS", false),
      service: group("The Service `keelson-robots-exec`.", {
        type: choice("type of the Service", ["ClusterIP", "NodePort", "LoadBalancer"], "ClusterIP"),
        annotations: map("annotations of the Service"),
      }),
    }),
  },
  testplane: {
    extraRules: list("RBAC rules for the objects that tests create and read"),
  },
  sandboxes: {
    persistence: group("A volume for the fast path's keys and its log of creates.", {
      enabled: flag("use a PersistentVolumeClaim; without one, a new Pod generates a new certificate", false),
      size: text("size of the claim", "1Gi"),
      storageClassName: text("storage class (default: that of the cluster)", ""),
    }),
    proxy: group("The HTTP proxy to exposed ports of sandboxes. Its URLs survive restarts only with `persistence`.", {
      enabled: flag("run the proxy on port 8443 of the Service, over TLS with the certificate of the fast path", false),
      host: Type.String({
        description:
          "domain of the proxy, which nothing else uses; wildcard DNS for its subdomains must resolve to the Ingress or the Service",
        default: "sandboxes.example.com",
        pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$",
        maxLength: 200,
      }),
      url: text("URL at which clients reach the proxy (default: https:// and the host)", ""),
      ingress: group("An Ingress for all subdomains of the host.", {
        enabled: flag("create the Ingress", false),
        className: text("class of the Ingress (default: that of the cluster)", ""),
        annotations: Type.Object(
          {},
          {
            description: "annotations of the Ingress; the proxy serves TLS itself",
            default: { "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS" },
            additionalProperties: true,
          },
        ),
        tlsSecret: text("Secret of type `kubernetes.io/tls` with a certificate for all subdomains of the host", ""),
      }),
    }),
    tokenSecret: text(
      "Secret with a token (key `token`) that grants every call of the fast path, even without TLS; default: users of the cluster only",
      "",
    ),
    tlsSecret: text(
      "Secret of type `kubernetes.io/tls` with the certificate of the fast path; default: the operator generates one",
      "",
    ),
  },
};

function settingSchema(flagName: string, flags: readonly FlagDefinition[]): TSchema {
  const definition = flags.find((each) => each.name === flagName);
  if (definition === undefined) throw new TypeError(`setting of unknown flag ${flagName}`);
  const { value: placeholder, description, choices, default: byDefault = "" } = definition;
  if (placeholder === undefined) return flag(description, false);
  if (choices !== undefined) return choice(description, choices, byDefault);
  return flagName.endsWith("namespace") ? name(description, byDefault) : text(description, byDefault);
}

/** The defaults of a {@link valuesSchema}. */
export function defaultValues(schema: TSchema): JsonValue {
  const node: unknown = schema;
  if (!isJsonObject(node)) throw new TypeError("schema must be an object");
  if (node.default !== undefined) return structuredClone(node.default);
  const { properties = {} } = node;
  if (!isJsonObject(properties)) return {};
  const result: JsonObject = {};
  for (const [key, property] of Object.entries(properties)) result[key] = defaultValues(property as TSchema);
  return result;
}
