import { expect, it } from "vitest";
import { parseDeniedFlows } from "./denied-flows.ts";

it("reads denied flows from the output of nft 1.0", () => {
  const text = JSON.stringify({
    nftables: [
      { metainfo: { version: "1.0.6", json_schema_version: 1 } },
      { table: { family: "inet", name: "keelson_ks1", handle: 2 } },
      { counter: { family: "inet", name: "denied", table: "keelson_ks1", handle: 5, packets: 3, bytes: 180 } },
      {
        set: {
          name: "denied_to",
          elem: [
            { elem: { val: { concat: ["203.0.113.66", "tcp", 443] }, timeout: 3600, expires: 3599 } },
            { elem: { val: { concat: ["10.0.0.1", "udp", 53] }, timeout: 3600, expires: 3599 } },
          ],
        },
      },
      { set: { name: "resolved", elem: ["203.0.113.10"] } },
    ],
  });
  expect(parseDeniedFlows(text)).toEqual({ count: 3, destinations: ["10.0.0.1:53/udp", "203.0.113.66:443/tcp"] });
  expect(parseDeniedFlows('{"nftables":[]}')).toEqual({ count: 0, destinations: [] });
});
