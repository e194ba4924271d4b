import { expect, it } from "vitest";
import { type JanitorObservation, orphanReason } from "./janitor-decision.ts";

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
  isInHand: false,
  now: 200_000,
  protectionMs: 10_000,
};

it("ends what has no object, what is another's, and what is an earlier instance", () => {
  expect(orphanReason(orphan)).toBe("there is no Sandbox default/one");
  const claim = { kind: "present", uid: "uid-2", sandboxIds: [] } as const;
  expect(orphanReason({ ...orphan, claim })).toMatch(/is another one than it was made for/);
  expect(orphanReason({ ...orphan, claim: { ...claim, uid: "uid-1" } })).toMatch(/is another instance/);
});

it.each([
  ["the API could not be asked", { claim: { kind: "unknown" } }],
  ["it is young", { now: 105_000 }],
  ["the fast path has it in hand", { isInHand: true }],
  ["it is being deleted already", { status: { ...orphan.status, phase: "terminating" } }],
  ["it does not say whose it is", { status: { ...orphan.status, claimName: "" } }],
  ["its object names it", { claim: { kind: "present", uid: "uid-2", sandboxIds: ["0".repeat(32)] } }],
] satisfies [string, Partial<JanitorObservation>][])("leaves alone: %s", (_, change) => {
  expect(orphanReason({ ...orphan, ...change })).toBeUndefined();
});
