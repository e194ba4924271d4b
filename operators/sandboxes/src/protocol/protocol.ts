import { isJsonObject } from "@keelson/api-machinery";
import { isQuantity, quantityToMillis } from "@keelson/api-machinery/quantity";
import { sandboxIdPattern } from "../api/names.ts";

/* What is said between the operator and its agents, over HTTP with a bearer token. Paths and fields are fast-sandbox's. */

/** Paths of an agent's API. */
export const agentPaths = {
  create: "/api/v1/agent/create",
  delete: "/api/v1/agent/delete",
  status: "/api/v1/agent/status",
  logs: "/api/v1/agent/logs",
  /** Ours: an upgrade to the protocol of `exec-frames.ts`. */
  exec: "/api/v1/agent/exec",
  /** Ours: another time at which a sandbox expires, {@link ExpiryChange}. */
  expire: "/api/v1/agent/expire",
} as const;

/** What an agent is to run. */
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
  /** Kubernetes quantities (`500m`, `256Mi`) that it gets at most. Default: no limit of its own. */
  readonly cpu?: string;
  readonly memory?: string;
  /** When it is ended, in milliseconds since the epoch, also where nobody asks for it then. Default: never. */
  readonly expiresAtMs?: number;
}

/** From when on a sandbox is not to run any more: milliseconds since the epoch; null: never. */
export interface ExpiryChange {
  readonly sandboxId: string;
  readonly expiresAtMs: number | null;
}

/**
 * Answer to a create. `rejected` says that nothing was done and nothing will be: another agent may be asked. Without it, a
 * failure may have left something behind.
 */
export interface CreateAnswer {
  readonly success: boolean;
  /** Why not; where it succeeded, what is not as it was asked for: limits that this machine does not let us set. */
  readonly message?: string;
  readonly sandboxId: string;
  /** Unix seconds. */
  readonly createdAt?: number;
  readonly rejected?: boolean;
  /** How long the driver took to start it, in milliseconds. */
  readonly startMs?: number;
}

/** What an agent says of a sandbox. */
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
  /** When the agent ends it; null: never. Absent where an agent leaves that to the operator. */
  readonly expiresAtMs?: number | null;
}

/** An agent's status. */
export interface AgentStatus {
  readonly agentId: string;
  readonly nodeName: string;
  readonly capacity: number;
  readonly allocated: number;
  readonly images: readonly string[];
  readonly sandboxStatuses: readonly SandboxStatus[];
}

const isText = (value: unknown): value is string => typeof value === "string" && !value.includes("\0");
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.length <= 1024 && value.every(isText);

/** Whether a value is a quantity above 0. */
export const isAmount = (value: unknown): boolean => isText(value) && isQuantity(value) && quantityToMillis(value) > 0;

const isMoment = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** Reads the body of a change of the expiry: what is to be, or what is wrong with it. */
export function parseExpiryChange(body: unknown): ExpiryChange | { readonly problem: string } {
  const { sandboxId, expiresAtMs } = isJsonObject(body) ? body : {};
  if (!isText(sandboxId) || !sandboxIdPattern.test(sandboxId))
    return { problem: "sandboxId: must be 32 hexadecimal digits or a UUID" };
  if (expiresAtMs !== null && !isMoment(expiresAtMs))
    return { problem: "expiresAtMs: must be milliseconds since the epoch, or null for never" };
  return { sandboxId, expiresAtMs };
}

/** Whether a value is a port. */
export const isPort = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65535;

/** Reads the body of a create: the sandbox, or what is wrong with it. */
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
    expiresAtMs,
  } = value;
  if (!isText(sandboxId) || !sandboxIdPattern.test(sandboxId))
    return { problem: "sandbox.sandboxId: must be 32 hexadecimal digits or a UUID" };
  if (!isText(image) || image === "") return { problem: "sandbox.image: must name an image" };
  for (const [name, text] of Object.entries({ claimUid, claimName, namespace })) {
    if (!isText(text) || text.length > 253) return { problem: `sandbox.${name}: must be text of at most 253 characters` };
  }
  if (command !== undefined && !isTexts(command)) return { problem: "sandbox.command: must be a list of text" };
  if (args !== undefined && !isTexts(args)) return { problem: "sandbox.args: must be a list of text" };
  if (env !== undefined && !(isJsonObject(env) && Object.values(env).every(isText)))
    return { problem: "sandbox.env: must map names to text" };
  if (workingDir !== undefined && !(isText(workingDir) && (workingDir === "" || workingDir.startsWith("/"))))
    return { problem: "sandbox.workingDir: must be an absolute path" };
  if (ports !== undefined && !(Array.isArray(ports) && ports.every(isPort)))
    return { problem: "sandbox.ports: must be a list of ports, 1 to 65535" };
  for (const [name, text] of Object.entries({ cpu, memory })) {
    if (text !== undefined && text !== "" && !isAmount(text))
      return { problem: `sandbox.${name}: ${JSON.stringify(text)} must be a quantity above 0, such as 500m or 256Mi` };
  }
  if (expiresAtMs !== undefined && !isMoment(expiresAtMs))
    return { problem: "sandbox.expiresAtMs: must be milliseconds since the epoch" };
  // Checked field by field above.
  return { sandbox: { ...value, claimUid, claimName, namespace } as unknown as AgentSandbox };
}
