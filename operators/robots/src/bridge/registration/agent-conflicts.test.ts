import { expect, it } from "vitest";
import { AgentConflicts } from "./agent-conflicts.ts";

const register = (conflicts: AgentConflicts, instanceId: string) => conflicts.register("robot-001", { instanceId });

it("reports two agents with the same id when the first one registers again after the second", () => {
  const conflicts = new AgentConflicts();
  expect(register(conflicts, "a")).toBeUndefined();
  expect(register(conflicts, "b")).toBeUndefined();
  expect(register(conflicts, "a")).toEqual([{ instanceId: "b" }, { instanceId: "a" }]);
  expect(register(conflicts, "b")).toEqual([{ instanceId: "a" }, { instanceId: "b" }]);
});

it("does not report an agent that reconnects or is restarted", () => {
  const conflicts = new AgentConflicts();
  for (const instance of ["a", "a", "b", "b", "c", "c"]) expect(register(conflicts, instance)).toBeUndefined();
});

it("forgets a robot that was deleted", () => {
  const conflicts = new AgentConflicts();
  register(conflicts, "a");
  register(conflicts, "b");
  conflicts.robotDeleted("robot-001");
  expect(register(conflicts, "a")).toBeUndefined();
});
