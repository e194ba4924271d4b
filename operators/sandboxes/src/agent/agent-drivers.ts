/** What isolates the sandboxes of an agent. `gvisor`: containerd with runsc. `process`: no isolation. */
export const agentDrivers = ["bubblewrap", "containerd", "gvisor", "process"] as const;

/** One of {@link agentDrivers}. */
export type AgentDriver = (typeof agentDrivers)[number];
