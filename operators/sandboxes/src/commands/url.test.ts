import { expect, it } from "vitest";
import { readExpiry } from "./url.ts";

it("reads the expiry of a URL, an hour by default", () => {
  expect([readExpiry({}), readExpiry({ expires: "90" }), readExpiry({ expires: "2h" })]).toEqual([
    3_600_000n,
    90_000n,
    7_200_000n,
  ]);
});

it("rejects an expiry of 0, which the server would take for its default", () => {
  expect(() => readExpiry({ expires: "0" })).toThrow("--expires: must be greater than 0");
});
