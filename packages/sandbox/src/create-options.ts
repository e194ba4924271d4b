import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectionOptions } from "./connection.ts";
import { ConsistencyMode, type CreateRequestSchema, WhenFull } from "./generated/fastpath/v1/fastpath_pb.ts";

/** A destination that a sandbox may reach: a DNS name (or `*.` and a domain), or IPv4 addresses. No `ports`: all ports. */
export type NetworkRule =
  | { readonly host: string; readonly ports?: readonly number[] }
  | { readonly cidr: string; readonly ports?: readonly number[] };

/** Options of `Sandbox.create`. */
export interface CreateOptions extends ConnectionOptions {
  readonly image: string;
  /** Default: `default-pool`. */
  readonly pool?: string;
  /** Default: generated. */
  readonly name?: string;
  /** The program of the sandbox, which ends with it. Default: `sleep infinity`, so that the sandbox waits for commands. */
  readonly command?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Absolute. Default: the image's. */
  readonly workingDir?: string;
  /** Lifetime of the sandbox, rounded up to seconds. Default: one hour; 0: until it is deleted. */
  readonly timeoutMs?: number;
  /** What it can reach. Default: `none`. */
  readonly network?: "none" | "internet" | { readonly allow: readonly NetworkRule[] };
  /** Ports to reach from outside, see `Sandbox.ports`. */
  readonly ports?: readonly number[];
  /** Volumes by mount path: the name of a `SandboxVolume`, or with `readOnly` so that sandboxes can share it. */
  readonly volumes?: Readonly<Record<string, string | { readonly name: string; readonly readOnly?: boolean }>>;
  /** Quantities, such as `500m` and `256Mi`. Default: the pool's. */
  readonly cpu?: string;
  readonly memory?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** What to do if no slot of the pool is free. Default: `wait`, at most 60 s or until `signal` aborts. */
  readonly whenFull?: "wait" | "reject" | "burst";
  /** `fast` (default) starts the program first, `strong` writes the object first. */
  readonly mode?: "fast" | "strong";
  readonly signal?: AbortSignal;
}

const defaultTimeoutMs = 3_600_000;

const whenFullValues = { wait: WhenFull.WAIT, reject: WhenFull.REJECT, burst: WhenFull.BURST } as const;

/** The request of a create. `nowMs`: milliseconds since the epoch. */
export function createRequest(options: CreateOptions, nowMs: number): MessageInitShape<typeof CreateRequestSchema> {
  const { network = "none", timeoutMs = defaultTimeoutMs } = options;
  const rules = typeof network === "string" ? [] : network.allow;
  return {
    image: options.image,
    poolRef: options.pool ?? "default-pool",
    namespace: options.namespace ?? "default",
    name: options.name ?? "",
    command: [...(options.command ?? ["sleep", "infinity"])],
    envs: { ...options.env },
    workingDir: options.workingDir ?? "",
    expireTimeSeconds: BigInt(timeoutMs === 0 ? 0 : Math.ceil((nowMs + timeoutMs) / 1000)),
    network: typeof network === "string" ? network : "allowList",
    networkAllow: rules.map((rule) => ({ ...rule, ports: [...(rule.ports ?? [])] })),
    exposedPorts: [...(options.ports ?? [])],
    volumes: Object.entries(options.volumes ?? {}).map(([mountPath, volume]) => ({
      ...(typeof volume === "string" ? { name: volume } : volume),
      mountPath,
    })),
    cpu: options.cpu ?? "",
    memory: options.memory ?? "",
    labels: { ...options.labels },
    whenFull: whenFullValues[options.whenFull ?? "wait"],
    consistencyMode: options.mode === "strong" ? ConsistencyMode.STRONG : ConsistencyMode.FAST,
  };
}
