import { readFile } from "node:fs/promises";
import { cpus, freemem, release, totalmem, uptime } from "node:os";
import { join } from "node:path";
import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import * as kinds from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { readLogTail } from "@keelson/execution";
import type { Operator } from "@keelson/operator";
import { examine, type Machine } from "../doctor/requirements.ts";
import { componentLabel } from "../install/objects/install-object.ts";
import { metricsTokenFile } from "../local/access/metrics-access.ts";
import type { UpState } from "../local/up-state.ts";
import { collectStatus, listOrEmpty, type StatusOptions } from "../status/collect-status.ts";
import { keelsonVersion } from "../version.ts";
import { redactObject, redactText } from "./redact.ts";
import type { ReportFiles } from "./report-files.ts";

const maxObjectsPerKind = 1_000;
const maxLogBytes = 4 * 1024 * 1024;
const maxPodLogLines = 5_000;
const requestTimeoutMs = 10_000;

/** Kinds of Kubernetes whose objects explain the state of ours. No Secret or ConfigMap is read. */
const builtInKinds: readonly ResourceType[] = [
  kinds.Node,
  kinds.Pod,
  kinds.Service,
  kinds.PersistentVolumeClaim,
  kinds.Deployment,
  kinds.StatefulSet,
  kinds.Job,
  kinds.Lease,
  kinds.CustomResourceDefinition,
];

/** Adds what is known about this machine without a cluster. */
export async function collectMachine(files: ReportFiles, machine: Machine, now: number): Promise<void> {
  await files.add("machine.json", () => ({
    createdAt: formatTime(now),
    keelson: keelsonVersion(),
    node: process.versions.node,
    platform: `${process.platform}/${process.arch}`,
    kernel: release(),
    cpus: cpus().length,
    memoryBytes: totalmem(),
    freeMemoryBytes: freemem(),
    uptimeSeconds: Math.round(uptime()),
    isRoot: machine.isRoot,
  }));
  await files.add("doctor.json", () => examine(machine));
}

/** Adds the state, the log and the metrics of the `keelson up` that uses a data directory. */
export async function collectLocal(
  files: ReportFiles,
  dataDir: string,
  local: (Partial<UpState> & { readonly pid: number }) | undefined,
): Promise<void> {
  await files.add("up.json", () => local ?? { running: false });
  await files.add("keelson.log", async () => redactText(await readLogTail(join(dataDir, "keelson.log"), maxLogBytes)));
  const url = local?.endpoints?.["metrics"];
  if (url !== undefined) await files.add("metrics.txt", () => readMetrics(`${url}/metrics`, dataDir));
}

async function readMetrics(url: string, dataDir: string): Promise<string> {
  const token = (await readFile(join(dataDir, metricsTokenFile), "utf8")).trim();
  const signal = AbortSignal.timeout(requestTimeoutMs);
  const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal });
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return response.text();
}

/** Adds the objects and events of a cluster, the state of the components, and the logs of installed operators. */
export async function collectCluster(files: ReportFiles, options: StatusOptions): Promise<void> {
  const { client, operators, signal } = options;
  await files.add("status.json", () => collectStatus(options));
  for (const type of [...builtInKinds, ...operators.flatMap(({ resources }) => resources)]) {
    const group = type.group === "" ? "core" : type.group;
    await files.add(`objects/${group}/${type.plural}.json`, () => readObjects(client, type, signal));
  }
  await files.add("events.json", () => readEvents(client, signal));
  if (options.local === undefined) {
    for (const operator of operators) await collectOperatorLogs(files, operator, options);
  }
}

async function readObjects(client: Client, type: ResourceType, signal: AbortSignal): Promise<object> {
  const items = await listOrEmpty(client, type, signal);
  const isSchemaPart = type.plural === kinds.CustomResourceDefinition.plural;
  const kept = items.slice(0, maxObjectsPerKind).map((item) => (isSchemaPart ? definitionOf(item) : redactObject(item)));
  return { total: items.length, items: kept };
}

/** A CustomResourceDefinition without its schemas, which its versions imply. */
function definitionOf({ metadata, ...rest }: DeepReadonly<KubernetesObject>): object {
  const { spec, status } = rest as { readonly spec?: { readonly versions?: readonly object[] }; readonly status?: object };
  const versions = spec?.versions?.map((version) => ({ ...version, schema: undefined }));
  return { name: metadata.name, annotations: metadata.annotations, versions, status };
}

async function readEvents(client: Client, signal: AbortSignal): Promise<object> {
  const { items } = await client.list(kinds.Event, { signal });
  const newest = items
    .map((event) => ({ at: event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "", event }))
    .sort((a, b) => (a.at < b.at ? 1 : -1))
    .slice(0, maxObjectsPerKind);
  return { total: items.length, items: newest.map(({ event }) => redactObject(event)) };
}

async function collectOperatorLogs(
  files: ReportFiles,
  operator: Operator,
  { client, namespace, signal }: StatusOptions,
): Promise<void> {
  const pods: string[] = [];
  await files.add(`logs/${operator.name}.json`, async () => {
    const { items } = await client.list(kinds.Pod, { namespace, labelSelector: `${componentLabel}=${operator.name}`, signal });
    pods.push(...items.map(({ metadata }) => metadata.name));
    return { pods };
  });
  for (const name of pods) {
    await files.add(`logs/${operator.name}/${name}.log`, async () => {
      const chunks: Uint8Array[] = [];
      const stream = await client.podLog({ namespace, name }, { tailLines: maxPodLogLines, signal });
      for await (const chunk of stream) chunks.push(chunk);
      return redactText(Buffer.concat(chunks).subarray(-maxLogBytes).toString("utf8"));
    });
  }
}
