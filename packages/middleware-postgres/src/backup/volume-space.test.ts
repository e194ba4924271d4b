import { expect, it } from "vitest";
import { freeBytesOf, spaceProblem } from "./volume-space.ts";

it("refuses data that does not fit alongside that of the running server", async () => {
  expect(spaceProblem(1_000_000_000, 900_000_000)).toBeUndefined();
  expect(spaceProblem(1_000_000_000, 950_000_000)).toMatch(/has 1000000000 free bytes, and the data needs 1017108864/);
  expect(spaceProblem(await freeBytesOf("/"), Number.MAX_SAFE_INTEGER)).toMatch(/free bytes/);
});
