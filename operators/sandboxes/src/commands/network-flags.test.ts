import { describe, expect, it } from "vitest";
import { readNetwork } from "./network-flags.ts";

describe("the network flags", () => {
  it("request no network by default, and an allow-list with destinations", () => {
    expect(readNetwork({})).toEqual({ network: "none", networkAllow: [] });
    expect(readNetwork({ network: "internet" })).toEqual({ network: "internet", networkAllow: [] });
    expect(readNetwork({ allow: ["pypi.org:443,80", "*.example.com", "10.0.0.0/8:53"] })).toEqual({
      network: "allowList",
      networkAllow: [{ host: "pypi.org", ports: [443, 80] }, { host: "*.example.com" }, { cidr: "10.0.0.0/8", ports: [53] }],
    });
  });

  it.each([["Pypi.org"], ["10.0.0.300"], ["pypi.org:0"], ["pypi.org:443:80"], ["::1"], [""]])("reject %j", (allow) => {
    expect(() => readNetwork({ allow: [allow] })).toThrow(/--allow/);
  });

  it("reject an allow-list without destinations", () => {
    expect(() => readNetwork({ network: "allowList" })).toThrow("requires --allow");
  });

  it("reject destinations together with internet", () => {
    expect(() => readNetwork({ network: "internet", allow: ["pypi.org"] })).toThrow(
      "cannot be combined with --network internet",
    );
  });
});
