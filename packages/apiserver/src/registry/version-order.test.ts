import { expect, it } from "vitest";
import { compareVersionPriority } from "./version-order.ts";

it("prefers stable versions, then later ones, then names", () => {
  const sorted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
  expect([...sorted].reverse().sort(compareVersionPriority)).toEqual(sorted);
});
