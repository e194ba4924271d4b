import { describe, expect, it } from "vitest";
import { normalizeParameters, postgresConfig } from "./postgres-config.ts";

const base = { host: "127.0.0.2", port: 5_432, socketFolder: "/run", hbaFile: "/hba", upstream: undefined };

describe("the configuration", () => {
  it("has the names of parameters in lower case", () => {
    expect(normalizeParameters({ Work_Mem: "8MB", "plpgsql.Check_Asserts": "off" })).toEqual({
      work_mem: "8MB",
      "plpgsql.check_asserts": "off",
    });
  });

  it.each(["work_mem = 1\nlisten_addresses", "include 'x'", "", "1a", "a.", "a-b"])("rejects the name %j", (name) => {
    expect(() => postgresConfig({ ...base, parameters: { [name]: "*" } })).toThrow(/must be a name/);
  });

  it.each([
    [{}, "256MB"],
    [{ wal_keep_size: "0" }, "64MB"],
    [{ wal_keep_size: "32768kB" }, "64MB"],
    [{ WAL_keep_size: "65" }, "65"],
    [{ wal_keep_size: "1GB" }, "1GB"],
    [{ wal_keep_size: "0.01GB" }, "64MB"],
    [{ wal_keep_size: "0.5 GB" }, "0.5 GB"],
    [{ wal_keep_size: "1048576B" }, "64MB"],
    [{ wal_keep_size: "0x10" }, "64MB"],
    [{ wal_keep_size: "0x50" }, "0x50"],
    [{ wal_keep_size: "0100MB" }, "0100MB"],
    [{ wal_keep_size: "077" }, "64MB"],
    [{ wal_keep_size: "1e1" }, "64MB"],
    [{ wal_keep_size: "plenty" }, "plenty"],
  ])("with %j keeps %s of the log", (parameters: Readonly<Record<string, string>>, kept) => {
    const lines = postgresConfig({ ...base, parameters }).split("\n");
    expect(lines.findLast((line) => line.startsWith("wal_keep_size"))).toBe(`wal_keep_size = '${kept}'`);
  });
});
