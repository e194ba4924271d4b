import { expect, it } from "vitest";
import type { Exited } from "../driver.ts";
import { ExitEvent } from "./exit-event.ts";

const exited: Exited = { kind: "exited", reason: "Completed", exitCode: 0, message: "", finishedAt: 0 };

it("reports an end once to each listener, including to those that come later, but not to those that have left", async () => {
  const event = new ExitEvent();
  const seen: string[] = [];
  event.on(() => seen.push("one"));
  event.on(() => seen.push("left"))();
  event.resolve(exited);
  expect(await event.promise).toBe(exited);
  event.on(() => seen.push("late"));
  await Promise.resolve();
  expect(seen).toEqual(["one", "late"]);
});
