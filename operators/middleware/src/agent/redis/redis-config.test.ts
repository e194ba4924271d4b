import { expect, it } from "vitest";
import { redisConfig } from "./redis-config.ts";

const plain = {
  host: "127.0.0.9",
  port: 6379,
  dataDir: "/data",
  password: 'a"b\\c',
  primaryPassword: "p",
  parameters: {},
};
const linesOf = (more: Partial<Parameters<typeof redisConfig>[0]>) =>
  redisConfig({ ...plain, ...more })
    .trimEnd()
    .split("\n");

it("does not let a value inject a line or an option", () => {
  const lines = linesOf({ parameters: { maxmemory: "1mb\nrequirepass x", save: "900 1\nbind 0.0.0.0" } });
  expect(lines).toHaveLength(linesOf({}).length + 2);
  expect(lines).toContain('requirepass "a\\"b\\\\c"');
  expect(lines).toContain('maxmemory "1mb\\nrequirepass x"');
  expect(linesOf({ parameters: { save: "900 1 300 10" } })).toContain("save 900 1 300 10");
});

it.each([
  ["maxmemory 1mb\nreplicaof 10.0.0.1 6379\n#", "x"],
  ["include /etc/passwd #", ""],
  ["", "x"],
  ["maxmemory", "1\0"],
])("rejects the parameter %j with the value %j", (name, value) => {
  expect(() => linesOf({ parameters: { [name]: value } })).toThrow(/must be a name such as maxmemory/);
});

it("puts the fence after the user's parameters, so that it wins", () => {
  const lines = linesOf({ parameters: { "min-replicas-to-write": "1" } });
  expect(lines.slice(-2)).toEqual(['min-replicas-to-write "1"', "min-replicas-to-write 10000"]);
});
