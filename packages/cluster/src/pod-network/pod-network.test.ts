import { expect, test } from "vitest";
import { assertUnused } from "./pod-network.ts";

test("a network without a route, or with a route through its own link, is unused", () => {
  assertUnused("10.70.0.0/16", "kl1", "");
  assertUnused("10.70.0.0/16", "kl1", "10.70.0.0/16 via 10.70.255.253 dev kl1 src 10.70.255.254 \n");
});

test.each([
  "10.70.0.0/16 via 10.70.255.253 dev kl12 src 10.70.255.254",
  "10.70.0.0/16 dev br-1 proto kernel scope link src 10.70.0.1",
  "unreachable 10.70.0.0/16",
])("a network with another route is in use: %s", (route) => {
  expect(() => assertUnused("10.70.0.0/16", "kl1", `${route}\n`)).toThrow(
    `10.70.0.0/16: in use by another network (${route}): remove it, or use another --data-dir`,
  );
});
