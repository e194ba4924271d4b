/** What isolates the sandboxes of an agent. `process`: no isolation. */
export const agentDrivers = ["bubblewrap", "containerd", "process"] as const;

/** One of {@link agentDrivers}. */
export type AgentDriver = (typeof agentDrivers)[number];
