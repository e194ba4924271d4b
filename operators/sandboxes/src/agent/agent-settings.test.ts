import { describe, expect, it } from "vitest";
import { agentSettings } from "./agent-settings.ts";

describe("an agent's settings", () => {
  it("are read from the original's variables, with its defaults", () => {
    expect(
      agentSettings({ AGENT_TOKEN: "t", AGENT_PORT: ":5759", POD_NAME: "p", NODE_NAME: "n", POD_IP: "127.1.0.2" }),
    ).toEqual({
      name: "p",
      node: "n",
      capacity: 5,
      token: "t",
      bindAddress: "127.1.0.2",
      port: 5759,
      dir: "/var/lib/keelson/sandboxes",
      driver: "bubblewrap",
    });
  });

  it.each([
    [{}, /^AGENT_TOKEN: required/],
    [{ AGENT_TOKEN: "t", AGENT_PORT: "70000" }, /^AGENT_PORT: "70000"/],
    [{ AGENT_TOKEN: "t", AGENT_CAPACITY: "0" }, /^AGENT_CAPACITY: "0"/],
    [{ AGENT_TOKEN: "t", AGENT_MAX_PROCESSES: "-1" }, /^AGENT_MAX_PROCESSES: "-1"/],
    [
      { AGENT_TOKEN: "t", AGENT_DRIVER: "docker" },
      /^AGENT_DRIVER: "docker" must be bubblewrap or containerd or gvisor or process/,
    ],
    [{ AGENT_TOKEN: "t", AGENT_SANDBOX_CPU: "0" }, /^AGENT_SANDBOX_CPU: "0"/],
    [{ AGENT_TOKEN: "t", AGENT_SANDBOX_MEMORY: "much" }, /^AGENT_SANDBOX_MEMORY: "much"/],
    [{ AGENT_TOKEN: "t", CONTAINERD_SOCKET: "here.sock" }, /^CONTAINERD_SOCKET: "here.sock"/],
  ] satisfies [Record<string, string>, RegExp][])("reject %j and name the variable", (env, message) => {
    expect(() => agentSettings(env)).toThrow(message);
  });
});
