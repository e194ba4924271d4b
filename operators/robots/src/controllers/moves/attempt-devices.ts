import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import type { RobotAttempt } from "./move-decision.ts";

/** An attempt of a Task with the devices that it has on its robot, so that no other task gets them while it may be running. */
export function withDevices(
  { spec, status }: DeepReadonly<Task>,
  { robot, attempt }: RobotAttempt,
): RobotAttempt & { readonly devices?: { name: string; ids: string[] }[] } {
  const recorded = [status?.displaced, status?.adopted].find((each) => each?.robot === robot && each.attempt === attempt);
  const devices = recorded?.devices ?? (spec.targetRobot === robot ? spec.targetDevices : undefined) ?? [];
  if (devices.length === 0) return { robot, attempt };
  return { robot, attempt, devices: devices.map(({ name, ids }) => ({ name, ids: [...ids] })) };
}
