import type { JsonValue } from "@keelson/api-machinery";
import { parseAllDocuments } from "yaml";
import type { loadOperators } from "../operators.ts";
import { installParts, renderInstallation } from "../install/install-parts.ts";
import { readValues } from "../install/values.ts";

/** Version of the charts that tests render. */
export const version = "1.2.3";

/** Namespace of the installations that tests render. */
export const namespace = "work";

/** Values to render the chart with, each with a name. */
export const chartCases: readonly (readonly [string, JsonValue])[] = [
  ["the defaults", {}],
  [
    "everything switched on",
    {
      namespace: { create: true },
      metrics: {
        serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
        rules: { enabled: true, labels: { release: "prometheus" } },
        dashboards: { enabled: true },
        tls: { secret: "metrics-tls" },
      },
      imagePullSecrets: [{ name: "registry" }],
      nodeSelector: { "kubernetes.io/os": "linux" },
      tolerations: [{ key: "dedicated", operator: "Exists" }],
      affinity: { nodeAffinity: {} },
      priorityClassName: "high",
      runtimeClassName: "gvisor",
      podLabels: { team: "platform" },
      podAnnotations: { "example.org/note": 'quotes " and {{ braces }} and <angles>' },
      robots: {
        extraArgs: ["--log-level=debug"],
        allowV1Agents: true,
        broker: { kind: "mosquitto", credentialsSecret: "mqtt", mosquitto: { passwordSecret: "passwords" } },
        exec: { enabled: true, service: { type: "LoadBalancer", annotations: { a: "b" } } },
      },
      testplane: { extraRules: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["get", "create"] }] },
      sandboxes: {
        persistence: { enabled: true, storageClassName: "fast" },
        proxy: {
          enabled: true,
          host: "boxes.example.org",
          ingress: { enabled: true, className: "nginx", tlsSecret: "boxes-tls" },
        },
        tokenSecret: "fastpath",
        tlsSecret: "fastpath-tls",
        toolImage: "example.org/tools:1",
        service: { type: "LoadBalancer", annotations: { a: "b" } },
      },
    },
  ],
  [
    "metrics without TLS and a proxy without an Ingress",
    {
      sandboxes: { proxy: { enabled: true, url: "https://boxes.example.org:8443" } },
      metrics: { tls: { enabled: false, secret: "unused" }, serviceMonitor: { enabled: true } },
    },
  ],
  [
    "everything switched off",
    {
      crds: { install: false },
      rbac: { aggregate: false },
      metrics: { enabled: false },
      networkPolicy: { enabled: false },
      podDisruptionBudget: { enabled: false },
      topologySpread: { enabled: false },
      robots: { broker: { kind: "external", url: "mqtts://broker:8883" } },
      mpi: { enabled: false },
      middleware: { replicas: 0 },
    },
  ],
];

/** The objects of a YAML stream. */
export const objectsOf = (yaml: string): unknown[] =>
  parseAllDocuments(yaml)
    .map((document) => document.toJS() as unknown)
    .filter((object) => object !== null);

/** Objects in an order that does not depend on files. */
export const sorted = (objects: readonly unknown[]): unknown[] =>
  objects
    .map((object) => object as { kind: string; metadata: { name: string } })
    .sort((a, b) => `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`));

/** The complete values of an installation and the objects that `keelson install` applies for them. */
export function renderCase(
  operators: Awaited<ReturnType<typeof loadOperators>>,
  source: JsonValue,
): { readonly values: JsonValue; readonly objects: unknown[] } {
  const { values } = readValues({ operators, version, sources: [source] });
  return { values, objects: sorted(renderInstallation(installParts(operators), { values, namespace })) };
}
