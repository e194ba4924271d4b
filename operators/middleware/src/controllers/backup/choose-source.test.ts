import { describe, expect, it } from "vitest";
import type { Role } from "../group/observation.ts";
import { chooseSource, type SourceCandidate } from "./choose-source.ts";

const pod = (name: string, role: Partial<Role> | undefined): SourceCandidate => ({
  name,
  ip: `10.0.0.${name}`,
  role: role && { role: "replica", isInSync: true, primaryHost: "10.0.0.0", ...role },
});
const primary = pod("0", { role: "primary", offset: 1_000 });

describe("the source of a backup", () => {
  it("is the replica in sync with the least lag", () => {
    const candidates = [primary, pod("1", { offset: 900 }), pod("2", { offset: 980 })];
    expect(chooseSource(candidates, "0", 500)).toEqual({
      pod: "2",
      ip: "10.0.0.2",
      role: "replica",
      reason: "replica in sync",
      lagBytes: 20,
    });
  });

  it("is the primary if every replica lacks too much, with the reason", () => {
    expect(chooseSource([primary, pod("1", { offset: 100 })], "0", 500)).toMatchObject({
      pod: "0",
      role: "primary",
      reason: "every replica lags more than 500 bytes behind; the closest one lags 900",
    });
  });

  it("is never a replica that is out of sync, follows another primary or does not respond", () => {
    const candidates = [
      primary,
      pod("1", { isInSync: false, offset: 1_000 }),
      pod("2", { primaryHost: "10.0.0.9", offset: 1_000 }),
      pod("3", undefined),
    ];
    expect(chooseSource(candidates, "0", 500)).toMatchObject({ pod: "0", reason: "no replica is in sync" });
  });

  it("is the primary of a group of one Pod", () => {
    expect(chooseSource([primary], "0", 0)).toMatchObject({ role: "primary", reason: "the group has no replica" });
  });

  it("is a replica if the primary does not respond", () => {
    expect(chooseSource([pod("0", undefined), pod("1", { offset: 5 })], "0", 0)).toMatchObject({
      pod: "1",
      reason: "replica in sync; the primary does not respond",
    });
  });

  it("is awaited if no Pod has current data", () => {
    expect(chooseSource([pod("0", undefined)], "0", 0)).toHaveProperty("problem");
    expect(chooseSource([pod("0", { role: "recovering" })], "0", 0)).toHaveProperty("problem");
  });
});
