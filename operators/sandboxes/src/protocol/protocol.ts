import { isJsonObject } from "@keelson/api-machinery";
import { isQuantity, quantityToMillis } from "@keelson/api-machinery/quantity";
import { argumentSizeProblem, type StartKind, type WarmStatus } from "@keelson/execution";
import { sandboxIdPattern } from "../api/names.ts";
import type { FolderReport } from "../files/folder-changes.ts";
import type { DeniedFlows } from "../network/denied-flows.ts";
import { type VolumeMount, volumeIdPattern, volumeMountsProblem } from "../volumes/volume-mount.ts";
import { type NetworkMode, networkProblem, type NetworkRule } from "../network/network-policy.ts";

/* The protocol between the operator and its agents. Paths and fields are fast-sandbox's. */

/** Paths of an agent's API. */
export const agentPaths = {
  create: "/api/v1/agent/create",
  delete: "/api/v1/agent/delete",
  status: "/api/v1/agent/status",
  logs: "/api/v1/agent/logs",
  /** Keelson's: upgrades to the protocol of `exec-frames.ts`. */
  exec: "/api/v1/agent/exec",
  /** Keelson's: as `exec`, with a `user`. Its own path, because agents of earlier versions ignore unknown parameters. */
  execAs: "/api/v1/agent/exec-as",
  /** Keelson's: as `exec`, but connects to the exposed port `port`. `stdin` and `closeStdin` are its input, `stdout` and `exit` its output. */
  connect: "/api/v1/agent/connect",
  /** Keelson's: changes the expiry of a sandbox, {@link ExpiryChange}. */
  expire: "/api/v1/agent/expire",
  /** Keelson's: freezes a sandbox. Its expiry does not apply until it is resumed. */
  pause: "/api/v1/agent/pause",
  /** Keelson's: runs `operation`, a `FileOperation` as JSON, with the request's body as data. The answer has a file's data, or JSON. */
  files: "/api/v1/agent/files",
  /** Keelson's: watches the directory `path`, also below it if `recursive` is true. The answer, a {@link FolderWatchLine} per line, starts when it is active. */
  watchFiles: "/api/v1/agent/watch-files",
  /** Keelson's: runs the `ProcessOperation` in the body, answers with a `ProcessResult`. */
  processes: "/api/v1/agent/processes",
  /** Keelson's: as `processes`, for a start with a `user`. */
  processesAs: "/api/v1/agent/processes-as",
  /** Keelson's: follows the output of `processId` from `offset` on, as frames of `exec-frames.ts`. The last one has its `ProcessStatus`. */
  processOutput: "/api/v1/agent/process-output",
  /** Keelson's: creates or deletes a volume, {@link VolumeChange}. */
  volumes: "/api/v1/agent/volumes",
  /** Keelson's: what the running sandboxes use, a list of {@link SandboxUsage} as `usages`. */
  usage: "/api/v1/agent/usage",
  /** Keelson's: lets a sandbox continue, with a new expiry, {@link ExpiryChange}. */
  resume: "/api/v1/agent/resume",
} as const;

/** What a sandbox uses, and its limits. */
export interface SandboxUsage {
  readonly sandboxId: string;
  /** Since the measurement before, or since its start. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly pids: number;
  /** In the directories with a disk limit. */
  readonly diskBytes?: number;
  readonly limits: Partial<Readonly<Record<"cpuMillis" | "memoryBytes" | "pids" | "diskBytes", number>>>;
}

/** Header with the JSON of a `FileResult`, without the data in the body. */
export const fileResultHeader = "x-keelson-file";

/** A line of a watch. A stream without `hasEnded` in its last line has broken. */
export type FolderWatchLine = FolderReport | { readonly hasEnded: true };

/** A sandbox for an agent to run. */
export interface AgentSandbox {
  readonly sandboxId: string;
  readonly claimUid: string;
  readonly claimName: string;
  readonly namespace: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly workingDir?: string;
  readonly ports?: readonly number[];
  /** Default: `none`. */
  readonly network?: NetworkMode;
  /** Rules of network `allowList`. */
  readonly networkAllow?: readonly NetworkRule[];
  readonly volumes?: readonly VolumeMount[];
  /** Limits as Kubernetes quantities (`500m`, `256Mi`). Default: the agent's. */
  readonly cpu?: string;
  readonly memory?: string;
  /** When the agent stops it by itself, in milliseconds since the epoch. Default: never. */
  readonly expiresAtMs?: number;
}

/** A change of an agent's volumes. All are idempotent. */
export type VolumeChange =
  | { readonly kind: "create"; readonly volumeId: string; readonly sizeBytes: number }
  /** Grows a volume to at least this size. */
  | { readonly kind: "resize"; readonly volumeId: string; readonly sizeBytes: number }
  | { readonly kind: "delete"; readonly volumeId: string };

/** The new expiry of a sandbox: milliseconds since the epoch; null: never. */
export interface ExpiryChange {
  readonly sandboxId: string;
  readonly expiresAtMs: number | null;
}

/**
 * Answer to a create. `rejected` guarantees that it has no side effects, so another agent may be tried. Without it, a failure may have
 * left something behind.
 */
export interface CreateAnswer {
  readonly success: boolean;
  /** Why it failed; on success, which limits are not enforced. */
  readonly message?: string;
  /** Absent if the request was invalid or failed unexpectedly. */
  readonly sandboxId?: string;
  /** Unix seconds. */
  readonly createdAt?: number;
  readonly rejected?: boolean;
  /** The driver's start time, in milliseconds. */
  readonly startMs?: number;
  /** How the sandbox was started. */
  readonly start?: StartKind;
}

/** Phases that an agent reports. */
export type AgentPhase = "creating" | "running" | "stopped" | "failed" | "terminated" | "terminating";

/** A sandbox in an agent's status. */
export interface SandboxStatus {
  readonly sandboxId: string;
  readonly claimUid: string;
  readonly claimName: string;
  readonly namespace: string;
  readonly phase: AgentPhase;
  readonly message: string;
  /** Unix seconds. */
  readonly createdAt: number;
  readonly exitCode?: number;
  readonly ports: readonly number[];
  /** Exposed ports that currently lead to the sandbox on the agent's address. Absent: an agent of an earlier version. */
  readonly openPorts?: readonly number[];
  /** When the agent stops it; null: never. Absent if the agent leaves that to the operator. */
  readonly expiresAtMs?: number | null;
  /** Whether it is frozen; its phase is `running`. */
  readonly paused?: boolean;
  /** Since when nothing uses it: no command and no connection to an exposed port. Milliseconds since the epoch; absent while it is used. */
  readonly idleSinceMs?: number;
  /** What its network access denied; absent without a network. */
  readonly denied?: DeniedFlows;
}

/** An agent's status. */
export interface AgentStatus {
  readonly agentId: string;
  readonly nodeName: string;
  readonly capacity: number;
  readonly allocated: number;
  readonly images: readonly string[];
  readonly sandboxStatuses: readonly SandboxStatus[];
  /** Ids of the volumes that it has. Absent: an agent of an earlier version. */
  readonly volumes?: readonly string[];
  /** Sizes of the volumes in bytes, by id. Absent: an agent of an earlier version, which cannot resize them. */
  readonly volumeSizes?: Readonly<Record<string, number>>;
  /** Absent if the agent keeps no warm slots. */
  readonly warm?: WarmStatus;
}

const isText = (value: unknown): value is string => typeof value === "string" && !value.includes("\0");
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.length <= 1024 && value.every(isText);

/** Whether a value is a positive quantity. */
export const isPositiveQuantity = (value: unknown): boolean =>
  isText(value) && isQuantity(value) && quantityToMillis(value) > 0;

const isMoment = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** Parses the body of an expiry change, or returns what is wrong with it. */
export function parseExpiryChange(body: unknown): ExpiryChange | { readonly problem: string } {
  const parsed = parseSandboxId(body);
  if ("problem" in parsed) return parsed;
  const { expiresAtMs } = isJsonObject(body) ? body : {};
  if (expiresAtMs !== null && !isMoment(expiresAtMs))
    return { problem: "expiresAtMs: must be milliseconds since the epoch, or null for never" };
  return { ...parsed, expiresAtMs };
}

/** Parses a body with the id of a sandbox, or returns what is wrong with it. */
export function parseSandboxId(body: unknown): { readonly sandboxId: string } | { readonly problem: string } {
  const { sandboxId } = isJsonObject(body) ? body : {};
  if (!isText(sandboxId) || !sandboxIdPattern.test(sandboxId))
    return { problem: "sandboxId: must be 32 hexadecimal digits or a UUID" };
  return { sandboxId };
}

/** Parses the body of a change of volumes, or returns what is wrong with it. */
export function parseVolumeChange(body: unknown): VolumeChange | { readonly problem: string } {
  const { kind, volumeId, sizeBytes } = isJsonObject(body) ? body : {};
  if (!isText(volumeId) || !volumeIdPattern.test(volumeId)) return { problem: "volumeId: must be a UUID" };
  if (kind === "delete") return { kind, volumeId };
  if (kind !== "create" && kind !== "resize") return { problem: "kind: must be create, resize or delete" };
  if (!isMoment(sizeBytes) || sizeBytes === 0) return { problem: "sizeBytes: must be a positive integer" };
  return { kind, volumeId, sizeBytes };
}

/** Whether a value is a port. */
export const isPort = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65535;

/** Parses the body of a create, or returns what is wrong with it. */
export function parseAgentSandbox(body: unknown): { readonly sandbox: AgentSandbox } | { readonly problem: string } {
  const value = isJsonObject(body) ? body.sandbox : undefined;
  if (!isJsonObject(value)) return { problem: "sandbox: must be an object" };
  const {
    sandboxId,
    claimUid = "",
    claimName = "",
    namespace = "default",
    image,
    command,
    args,
    env,
    workingDir,
    ports,
    cpu,
    memory,
    network,
    networkAllow,
    volumes,
    expiresAtMs,
  } = value;
  if (!isText(sandboxId) || !sandboxIdPattern.test(sandboxId))
    return { problem: "sandbox.sandboxId: must be 32 hexadecimal digits or a UUID" };
  if (!isText(image) || image === "") return { problem: "sandbox.image: must name an image" };
  for (const [name, text] of Object.entries({ claimUid, claimName, namespace })) {
    if (!isText(text) || text.length > 253) return { problem: `sandbox.${name}: must be a string of at most 253 characters` };
  }
  if (command !== undefined && !isTexts(command)) return { problem: "sandbox.command: must be a list of strings" };
  if (args !== undefined && !isTexts(args)) return { problem: "sandbox.args: must be a list of strings" };
  if (env !== undefined && !(isJsonObject(env) && Object.values(env).every(isText)))
    return { problem: "sandbox.env: must map names to strings" };
  const sizeProblem = argumentSizeProblem(
    [...(Array.isArray(command) ? command.map(String) : []), ...(Array.isArray(args) ? args.map(String) : [])],
    isJsonObject(env) ? Object.fromEntries(Object.entries(env).map(([name, text]) => [name, String(text)])) : {},
  );
  if (sizeProblem !== undefined) return { problem: `sandbox.${sizeProblem}` };
  if (workingDir !== undefined && !(isText(workingDir) && (workingDir === "" || workingDir.startsWith("/"))))
    return { problem: "sandbox.workingDir: must be an absolute path" };
  if (ports !== undefined && !(Array.isArray(ports) && ports.every(isPort)))
    return { problem: "sandbox.ports: must be a list of ports, 1 to 65535" };
  const badNetwork = networkProblem(network, networkAllow);
  if (badNetwork !== undefined) return { problem: `sandbox.${badNetwork}` };
  const badVolumes = volumes === undefined ? undefined : volumeMountsProblem(volumes);
  if (badVolumes !== undefined) return { problem: `sandbox.${badVolumes}` };
  for (const [name, text] of Object.entries({ cpu, memory })) {
    if (text !== undefined && text !== "" && !isPositiveQuantity(text))
      return { problem: `sandbox.${name}: ${JSON.stringify(text)} must be a positive quantity, such as 500m or 256Mi` };
  }
  if (expiresAtMs !== undefined && !isMoment(expiresAtMs))
    return { problem: "sandbox.expiresAtMs: must be milliseconds since the epoch" };
  // Validated field by field above.
  return { sandbox: { ...value, claimUid, claimName, namespace } as unknown as AgentSandbox };
}
