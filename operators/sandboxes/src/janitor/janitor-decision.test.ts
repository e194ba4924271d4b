import { expect, it } from "vitest";
import { type JanitorObservation, findOrphanReason } from "./janitor-decision.ts";

const orphan: JanitorObservation = {
  status: {
    sandboxId: "0".repeat(32),
    claimUid: "uid-1",
    claimName: "one",
    namespace: "default",
    phase: "running",
    message: "",
    createdAt: 100,
    ports: [],
  },
  claim: { kind: "absent" },
  isPending: false,
  now: 200_000,
  protectionMs: 10_000,
};

it("reports a sandbox without an object, with another object's uid, and of an earlier instance", () => {
  expect(findOrphanReason(orphan)).toBe("Sandbox default/one not found");
  const claim = { kind: "present", uid: "uid-2", sandboxIds: [] } as const;
  expect(findOrphanReason({ ...orphan, claim })).toMatch(/was recreated with another uid/);
  expect(findOrphanReason({ ...orphan, claim: { ...claim, uid: "uid-1" } })).toMatch(/has a newer instance/);
});

it.each([
  ["the API did not respond", { claim: { kind: "unknown" } }],
  ["it is young", { now: 105_000 }],
  ["its create is pending", { isPending: true }],
  ["it is being deleted already", { status: { ...orphan.status, phase: "terminating" } }],
  ["it has no claim", { status: { ...orphan.status, claimName: "" } }],
  ["its object names it", { claim: { kind: "present", uid: "uid-2", sandboxIds: ["0".repeat(32)] } }],
] satisfies [string, Partial<JanitorObservation>][])("keeps it if %s", (_, change) => {
  expect(findOrphanReason({ ...orphan, ...change })).toBeUndefined();
});
