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
});
