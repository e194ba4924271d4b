import { expect, it } from "vitest";
import { SharedEvents } from "./shared-events.ts";

it("encodes changes once for all watches of a resource, and for each resource on its own", () => {
  const shared = new SharedEvents();
  const [first, second] = [{ version: "v1" }, { version: "v1beta1" }] as const;
  const changes: readonly [] = [];
  const events = shared.of(changes, first, () => []);
  expect(shared.of(changes, first, () => expect.unreachable())).toBe(events);
  expect(shared.of(changes, second, () => [])).not.toBe(events);
  expect(shared.of([], first, () => [])).not.toBe(events);
});
