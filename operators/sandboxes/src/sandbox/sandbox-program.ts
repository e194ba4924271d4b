import { createHash } from "node:crypto";
import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { Clock } from "@keelson/api-machinery/time";
import type { BindMount, Driver, Limits, Program, ProgramSpec } from "@keelson/execution";
import type { ReadyNetwork } from "../network/sandbox-networks.ts";
import { type VolumeMount, volumeMountsProblem } from "../volumes/volume-mount.ts";
import { normalizeImage, type ReadyImage } from "./image-store.ts";
import type { AgentPhase, AgentSandbox, CreateAnswer, SandboxStatus } from "../protocol/protocol.ts";

/** Options that apply to every sandbox of an agent. */
export interface SandboxProgramOptions {
  readonly driver: Driver;
  /** What runs the containers of the `containerd` driver. Default: runc. */
  readonly runtime?: "runsc";
  /** Address of the agent, on which sandboxes' ports are exposed. */
  readonly address: string;
  readonly clock: Clock;
  readonly maxLogBytes?: number;
  /** Maximum number of processes and threads per sandbox. Default 512. */
  readonly maxProcesses?: number;
  /** Default limits of a sandbox, as quantities. */
  readonly defaultLimits?: Pick<AgentSandbox, "cpu" | "memory">;
}

/** Enough for a build or a browser; stops a fork bomb. */
const defaultMaxProcesses = 512;

/** Limits of a sandbox if neither it nor its pool sets any. Files in the work directory and /tmp count as memory too. */
const standardLimits = { cpu: "1", memory: "512Mi", diskBytes: 512 * 1024 * 1024 } as const;

/** A sandbox has its own network: its servers listen on its loopback, and the agent relays exposed ports. */
const loopback = "127.0.0.1";

/** Whether a program has not terminated. */
export const isAlive = (program: Program): boolean => program.state.kind !== "exited";
/** The exposed ports of a sandbox. */
export const portsOf = (program: Program): readonly number[] =>
  (program.spec.metadata?.ports ?? "")
    .split(",")
    .filter((text) => text !== "")
    .map(Number);

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** Identifies a sandbox's spec: two creates with the same id and hash are the same. Excludes the expiry, which may change. */
export function hashOf(sandbox: AgentSandbox): string {
  const entries = Object.entries(sandbox).filter(([key]) => key !== "claimUid" && key !== "expiresAtMs");
  return createHash("sha256").update(JSON.stringify(entries.sort())).digest("hex");
}

/** What a sandbox has of its agent, in addition to its image. */
export interface SandboxMounts {
  readonly network?: ReadyNetwork | undefined;
  /** The mounted volumes. */
  readonly volumes?: readonly BindMount[];
}

/** The volumes of a sandbox. */
export function volumesOf({ spec }: Program): readonly VolumeMount[] {
  const volumes: unknown = JSON.parse(spec.metadata?.volumes ?? "[]");
  return volumeMountsProblem(volumes) === undefined ? (volumes as readonly VolumeMount[]) : [];
}

/** The program spec of a sandbox. */
export function toProgramSpec(
  sandbox: AgentSandbox,
  image: ReadyImage,
  options: SandboxProgramOptions,
  { network, volumes = [] }: SandboxMounts = {},
): ProgramSpec {
  const { command = [], args = [], env = {}, workingDir } = sandbox;
  const own = command.length > 0 ? [...command, ...args] : [...image.entrypoint, ...(args.length > 0 ? args : image.command)];
  const [first = "/bin/sh", ...rest] = own;
  const cwd = workingDir === undefined || workingDir === "" ? image.workingDir : workingDir;
  const isIsolated = options.driver.name !== "process";
  const binds = [...(network === undefined ? [] : [{ source: network.resolver, target: "/etc/resolv.conf" }]), ...volumes];
  return {
    id: sandbox.sandboxId,
    command: [first, ...rest],
    env: { KEELSON_POD_IP: isIsolated ? loopback : options.address, ...image.env, ...env },
    ...(cwd !== undefined && { cwd }),
    ...(isIsolated && {
      isolation: {
        network: "none",
        ...(network !== undefined && {
          // A container gets its end of the link once it has been created.
          ...(options.driver.name === "bubblewrap" && { networkNamespace: network.namespace }),
        }),
        ...(binds.length > 0 && { binds }),
        hasPrivateUser: true,
        ...(options.runtime !== undefined && { runtime: options.runtime }),
        // The files of its volumes are given to this user before it starts.
        ...(volumes.length > 0 && { userScope: sandbox.sandboxId }),
        hostname: "sandbox",
        ...(image.root !== undefined && { root: image.root }),
      },
    }),
    limits: limitsOf(sandbox, options),
    killGraceMs: 10_000,
    logRotation: { maxBytes: options.maxLogBytes ?? 10 * 1024 * 1024, maxFiles: 2 },
    metadata: {
      hash: hashOf(sandbox),
      claimUid: sandbox.claimUid,
      claimName: sandbox.claimName,
      namespace: sandbox.namespace,
      image: normalizeImage(sandbox.image),
      ports: (sandbox.ports ?? []).join(","),
      createdAt: String(options.clock.now()),
      ...(sandbox.volumes !== undefined && { volumes: JSON.stringify(sandbox.volumes) }),
      ...(sandbox.expiresAtMs !== undefined && { expiresAtMs: String(sandbox.expiresAtMs) }),
    },
  };
}

function limitsOf(sandbox: AgentSandbox, options: SandboxProgramOptions): Limits {
  const { cpu = standardLimits.cpu, memory = standardLimits.memory } = options.defaultLimits ?? {};
  const memoryBytes = Math.max(Math.round(quantityToBytes(sandbox.memory || memory)), 1);
  return {
    pids: options.maxProcesses ?? defaultMaxProcesses,
    cpuMillis: Math.max(Math.round(quantityToMillis(sandbox.cpu || cpu)), 1),
    memoryBytes,
    ...(options.driver.name !== "process" && { diskBytes: Math.max(standardLimits.diskBytes, memoryBytes) }),
  };
}

/** A message about limits that this machine cannot enforce. */
function missingLimits({ spec, limits }: Program): string | undefined {
  return spec.limits === undefined ? undefined : limits.message;
}

/** The expiry from a sandbox's creation, in Unix milliseconds. */
export const requestedExpiry = ({ spec }: Program): number | undefined =>
  spec.metadata?.expiresAtMs === undefined ? undefined : Number(spec.metadata.expiresAtMs);

const createdAt = (program: Program, clock: Clock): number => Number(program.spec.metadata?.createdAt ?? clock.now());

/** The answer to a create of an existing sandbox. */
export function createdAnswer(program: Program, clock: Clock): CreateAnswer {
  const message = missingLimits(program);
  const createdAtSeconds = seconds(createdAt(program, clock));
  return {
    success: true,
    sandboxId: program.id,
    createdAt: createdAtSeconds,
    ...(message !== undefined && { message }),
  };
}

/** The status of a sandbox. */
export function statusOf(program: Program, isDeleting: boolean, clock: Clock): SandboxStatus {
  const { state } = program;
  const { metadata = {} } = program.spec;
  const phase = (): AgentPhase => {
    if (isDeleting) return "terminating";
    if (state.kind === "starting") return "creating";
    if (state.kind === "running") return "running";
    // Its agent or the machine stopped it.
    if (state.reason === "Lost" || state.reason === "Stopped") return "terminated";
    return state.reason === "Completed" ? "stopped" : "failed";
  };
  return {
    sandboxId: program.id,
    claimUid: metadata.claimUid ?? "",
    claimName: metadata.claimName ?? "",
    namespace: metadata.namespace ?? "",
    phase: phase(),
    message: state.kind === "exited" ? state.message : "",
    createdAt: seconds(createdAt(program, clock)),
    ...(state.kind === "exited" && { exitCode: state.exitCode }),
    ports: [...portsOf(program)],
  };
}
