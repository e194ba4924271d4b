import { describe, expect, it } from "vitest";
import { networkProblem, rulesFor } from "./network-policy.ts";

describe("the network access of a sandbox", () => {
  it.each([
    ["none", undefined],
    ["internet", []],
    [
      "allowList",
      [{ host: "example.com", ports: [443] }, { host: "*.example.org" }, { cidr: "10.0.0.0/8" }, { cidr: "192.0.2.1" }],
    ],
  ])("may be %s with %j", (network, allow) => {
    expect(networkProblem(network, allow)).toBeUndefined();
  });

  it.each([
    ["all", undefined, /^network: must be none, internet, allowList/],
    ["internet", [{ host: "a.b" }], /^networkAllow: requires network: allowList/],
    ["allowList", [], /^networkAllow: network allowList requires at least one rule/],
    ["allowList", undefined, /^networkAllow: network allowList requires at least one rule/],
    ["allowList", [{}], /^networkAllow\[0\]: must have either host or cidr/],
    ["allowList", [{ host: "a.b", cidr: "10.0.0.0/8" }], /^networkAllow\[0\]: must have either/],
    ["allowList", [{ host: "Example.com" }], /^networkAllow\[0\]\.host: "Example\.com" must be a lower-case DNS name/],
    ["allowList", [{ host: "a.b; drop" }], /^networkAllow\[0\]\.host/],
    ["allowList", [{ host: "a.b" }, { cidr: "10.0.0.256" }], /^networkAllow\[1\]\.cidr: "10\.0\.0\.256" must be IPv4/],
    ["allowList", [{ cidr: "10.0.0.0/33" }], /^networkAllow\[0\]\.cidr/],
    ["allowList", [{ cidr: "::/0" }], /^networkAllow\[0\]\.cidr/],
    ["allowList", [{ host: "a.b", ports: [0] }], /^networkAllow\[0\]\.ports/],
  ])("must not be %s with %j", (network, allow, message) => {
    expect(networkProblem(network, allow)).toMatch(message);
  });

  it("matches names exactly, and names below a wildcard but not the domain itself or a longer one", () => {
    const allow = [{ host: "example.com" }, { host: "*.example.org", ports: [443] }];
    expect(rulesFor("example.com", allow)).toEqual([allow[0]]);
    expect(rulesFor("a.b.example.org", allow)).toEqual([allow[1]]);
    for (const name of ["example.org", "a.example.com", "evilexample.org", "example.com.evil.net"])
      expect(rulesFor(name, allow)).toEqual([]);
  });
});
