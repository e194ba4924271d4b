import { expect, it } from "vitest";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { checksFeature } from "../protocol/messages.ts";
import { t0, taskOf } from "../testing/objects.ts";
import { copyOf } from "./copies.ts";
import { completeUpdatePolicy } from "./update-policy.ts";

const at = (seconds: number): string => new Date(t0 + seconds * 1000).toISOString();

/** How a rollout sees a task with a check whose robot has these features. */
function seen(status: Task["status"], features: readonly string[] = [checksFeature]) {
  const task = taskOf(
    { state: "running", ...status },
    { bound: true, spec: { services: [{ name: "web", portLabel: "http", checks: [{ type: "http" }] }] } },
  );
  const robot = {
    metadata: { name: "robot-001" },
    spec: { robotId: "robot-001" },
    status: { phase: "Online", agentFeatures: features },
  } as Robot;
  const { condition, availableAtMs } = copyOf({ key: "run/0" }, task, {
    robots: new Map([["robot-001", robot]]),
    stableKeys: new Set(),
    policy: completeUpdatePolicy([{ minHealthyTime: "10s" }], 1),
    now: t0,
  });
  return [condition, availableAtMs === undefined ? undefined : availableAtMs - t0];
}

it("is available once its checks have passed for the minimum time", () => {
  const runningSince = at(-60);
  expect(seen({ runningSince })).toEqual(["starting", undefined]);
  expect(seen({ runningSince, health: "failing" })).toEqual(["starting", undefined]);
  expect(seen({ runningSince, health: "passing", passingSince: at(-4) })).toEqual(["starting", 6000]);
  expect(seen({ runningSince, health: "passing", passingSince: at(-11) })).toEqual(["available", undefined]);
  // An older agent does not check anything.
  expect(seen({ runningSince }, [])).toEqual(["available", undefined]);
});
