import { describe, expect, it } from "vitest";
import { confirmationsOf, neededReplicas, SynchronousNames } from "./synchronous-quorum.ts";

describe("synchronous_standby_names", () => {
  it.each([
    ["", 0],
    ["  ", 0],
    ["ANY 1 (*)", 1],
    ["any 2 (a, b, c)", 2],
    ["FIRST 2 (*)", 2],
    ["3 (a, b, c, d)", 3],
    ["*", 1],
    ['"db-0", "db-1"', 1],
    ["first, second", 1],
  ])("%j: %i replicas confirm a commit", (names, count) => {
    expect(confirmationsOf(names)).toBe(count);
  });
});

describe("the replicas that must be known before one takes over", () => {
  it.each([
    ["", 4, 1],
    ["ANY 1 (*)", 2, 2],
    ["ANY 2 (*)", 2, 1],
    ["ANY 2 (*)", 4, 3],
    ["ANY 3 (*)", 2, 1],
    ["ANY 1 (*)", 1, 1],
  ])("%j of %i replicas", (names, replicas, needed) => {
    expect(neededReplicas(names, replicas)).toBe(needed);
    // Any commit has a confirmation among them.
    const confirmations = confirmationsOf(names);
    if (confirmations > 0 && confirmations <= replicas) expect(needed + confirmations).toBeGreaterThan(replicas);
  });

  it("follow from the stricter one of the own value and that of the primary", () => {
    const names = new SynchronousNames();
    expect(names.strictest("ANY 2 (*)", 2)).toBe("ANY 2 (*)");
    names.learn("ANY 1 (*)");
    expect(names.strictest("ANY 2 (*)", 2)).toBe("ANY 1 (*)");
    expect(names.strictest("", 2)).toBe("ANY 1 (*)");
    names.learn("");
    expect(names.strictest("ANY 1 (*)", 2)).toBe("ANY 1 (*)");
  });
});
