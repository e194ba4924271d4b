/** API group of the family. */
export const group = "sandbox.fast.io";

/** Its version. */
export const version = "v1alpha1";

/** Finalizer of Sandboxes, removed once their agent has nothing of them. */
export const cleanupFinalizer = "sandbox.fast.io/cleanup";

/** Set by the fast path: the agent that already runs the Sandbox, as JSON. Valid for the first instance only. */
export const allocationAnnotation = "sandbox.fast.io/allocation";

/** Set by the fast path: the time of the request, in nanoseconds since the epoch. */
export const createTimestampAnnotation = "sandbox.fast.io/createTimestamp";

/** Set by the fast path: the `request_id` of the create, which identifies a repeated request. */
export const requestIdAnnotation = "sandbox.fast.io/request-id";

/** Set by the fast path: the time (RFC 3339) by which the Sandbox must start; its caller's deadline. */
export const startDeadlineAnnotation = "sandbox.fast.io/start-deadline";

/** Label of Sandboxes: how they were created. */
export const createdByLabel = "sandbox.fast.io/created-by";

/** Value of {@link createdByLabel} for Sandboxes that were started before their object was written. */
export const createdByFastPath = "fastpath-fast";

/** Labels of agent Pods. */
export const agentLabels = { app: "app", pool: "fast-sandbox.io/pool" } as const;

/** Value of the `app` label of agent Pods. */
export const agentApp = "sandbox-agent";

/** Port of an agent's HTTP API. */
export const agentPort = 5758;

/** Ports of an agent's HTTP API and of the fast path's gRPC, which sandboxes must not expose. */
export const reservedPorts: readonly number[] = [agentPort, 9090];

/** Default of `spec.maxSandboxesPerPod`. */
export const defaultSandboxesPerAgent = 5;

/** The image name that stands for the machine's own `/usr`. */
export const hostImage = "host";

/** Valid sandbox ids: 32 hexadecimal digits or a UUID. They become file names on the agent. */
export const sandboxIdPattern = /^(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
