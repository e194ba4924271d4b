/** API group of the family. */
export const group = "sandbox.fast.io";

/** Its version. */
export const version = "v1alpha1";

/** On Sandboxes from their binding to an agent until nothing of them is left there. */
export const cleanupFinalizer = "sandbox.fast.io/cleanup";

/** On Sandboxes of the fast path: the agent that has them already, as JSON. Holds for the first placement only. */
export const allocationAnnotation = "sandbox.fast.io/allocation";

/** On Sandboxes of the fast path: when they were asked for, in nanoseconds since the epoch. */
export const createTimestampAnnotation = "sandbox.fast.io/createTimestamp";

/** On Sandboxes of the fast path: the `request_id` that they were made with, so that the same request is known again. */
export const requestIdAnnotation = "sandbox.fast.io/request-id";

/** Label of Sandboxes: which way they came. */
export const createdByLabel = "sandbox.fast.io/created-by";

/** Value of {@link createdByLabel} on those that an agent had before the API did. */
export const createdByFastPath = "fastpath-fast";

/** Labels of agent Pods. */
export const agentLabels = { app: "app", pool: "fast-sandbox.io/pool" } as const;

/** Value of the label `app` of agent Pods. */
export const agentApp = "sandbox-agent";

/** Port of an agent's HTTP API. */
export const agentPort = 5758;

/** Port of an agent's HTTP API, and of the fast path's gRPC: no sandbox may have them. */
export const reservedPorts: readonly number[] = [agentPort, 9090];

/** How many sandboxes an agent takes where the pool says nothing. */
export const defaultSandboxesPerAgent = 5;

/** The image that is the machine's own `/usr`. */
export const hostImage = "host";

/** What a sandbox's id in an agent may be: 32 hexadecimal digits or a UUID. It becomes a file's name there. */
export const sandboxIdPattern = /^(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
