import { expect, it } from "vitest";
import { jobOf, taskOf } from "../testing/objects.ts";
import { copiesAmong } from "./robot-loads.ts";

const copyOn = (robot: string, index: number) =>
  taskOf({ state: "running" }, { name: `copy-${index}`, uid: `copy-${index}`, spec: { targetRobot: robot } });

it("counts the copies of a task that exist, and takes the total from the Job", () => {
  const task = taskOf();
  const others = [task, copyOn("a", 1), copyOn("a", 2)];
  const wanted = jobOf({ taskGroups: [{ name: "workers", count: 10, tasks: [] }] });
  expect(copiesAmong(task, wanted, others)).toEqual({ total: 10, byRobot: new Map([["a", 2]]) });
  expect(copiesAmong(task, undefined, others).total).toBe(3);
  expect(copiesAmong(task, jobOf({ type: "system" }), others).total).toBe(3);
  expect(copiesAmong(task, jobOf({ taskGroups: [] }), others).total).toBe(3);
});

it("counts planned copies, which have neither a name nor a uid", () => {
  const planned = { ...taskOf(undefined, { spec: { targetRobot: "a" } }), metadata: { namespace: "default" } };
  const next = { ...taskOf(), metadata: { namespace: "default" } };
  expect(copiesAmong(next, undefined, [planned, next])).toEqual({ total: 2, byRobot: new Map([["a", 1]]) });
});
