import { expect, it } from "vitest";
import type { AgentStatus, SandboxStatus } from "../protocol/protocol.ts";
import { hasLoadChange } from "./warm-status.ts";

const status = (...ids: readonly string[]): AgentStatus => ({
  ...{ agentId: "agent", nodeName: "", capacity: 2, allocated: 0, images: [] },
  sandboxStatuses: ids.map(
    (sandboxId): SandboxStatus => ({
      ...{ sandboxId, claimUid: "", claimName: "", namespace: "", phase: "terminating", message: "", createdAt: 1, ports: [] },
    }),
  ),
});

it("reports that an agent no longer has a sandbox, even if it has got another one in the meantime", () => {
  expect(hasLoadChange(status("a", "b"), status("a"))).toBe(true);
  expect(hasLoadChange(status("a"), status("b"))).toBe(true);
  expect(hasLoadChange(status("a"), status("a"))).toBe(false);
});
