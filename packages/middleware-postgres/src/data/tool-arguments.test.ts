import { describe, expect, it } from "vitest";
import { backupArguments, rewindArguments } from "./tool-arguments.ts";

const upstream = { host: "127.0.0.2", port: 5_432, user: "postgres", password: "secret", name: "p-1" };

describe("the arguments of tools", () => {
  it("copy without a slot, so that an unfinished copy is not a synchronous replica", () => {
    expect(backupArguments(upstream, "/new")).toContain("--no-slot");
  });

  it("do not contain the password", () => {
    const all = [...backupArguments(upstream, "/new"), ...rewindArguments(upstream, "/data", "/conf")].join(" ");
    expect(all).toContain("127.0.0.2");
    expect(all).not.toContain("secret");
  });
});
