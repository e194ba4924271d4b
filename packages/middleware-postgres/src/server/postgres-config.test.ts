import { describe, expect, it } from "vitest";
import { normalizeParameters, passwordFileOf, postgresConfig } from "./postgres-config.ts";

const base = {
  host: "127.0.0.2",
  port: 5_432,
  socketFolder: "/run",
  hbaFile: "/hba",
  passwordFile: "/pw",
  upstream: undefined,
};

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

  it("has no password of the upstream: the server logs settings that change", () => {
    const upstream = { host: "127.0.0.3", port: 5_432, user: "postgres", password: "a:b\\c'd", name: "p-1" };
    const text = postgresConfig({ ...base, upstream, parameters: {} });
    expect(text).not.toContain("a:b");
    expect(text).toContain("passfile=''/pw''");
    expect(passwordFileOf(upstream.password)).toBe("*:*:*:*:a\\:b\\\\c'd\n");
    // A line break would end the entry of the file.
    const broken = { ...upstream, password: "a\nb" };
    expect(passwordFileOf(broken.password)).toBeUndefined();
    expect(postgresConfig({ ...base, upstream: broken, parameters: {} })).toContain("password=''a\\nb''");
  });

  it("rejects a value that cannot be an argument of the server", () => {
    expect(() => normalizeParameters({ work_mem: "8\0" })).toThrow(/work_mem: the value must not contain a NUL/);
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
