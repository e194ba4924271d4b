import type { JsonValue } from "@keelson/api-machinery";
import { beforeAll, expect, test } from "vitest";
import { loadOperators } from "../operators.ts";
import { readValues, type Values } from "./values.ts";

let operators: Awaited<ReturnType<typeof loadOperators>>;
beforeAll(async () => {
  operators = await loadOperators();
});

const read = (...sources: readonly JsonValue[]): Values => readValues({ operators, version: "1.2.3", sources });

test("merges maps, replaces lists and removes keys with null, later sources first", () => {
  const { values } = read(
    { nodeSelector: { a: "1", b: "2" }, tolerations: [{ key: "x" }] },
    { nodeSelector: { a: null, c: "3" }, tolerations: [] },
  );
  expect(values).toMatchObject({ nodeSelector: { b: "2", c: "3" }, tolerations: [], image: { tag: "1.2.3" } });
  expect(values.nodeSelector).not.toHaveProperty("a");
});

test("knows which operators are enabled", () => {
  const values = read({ mpi: { enabled: false } });
  expect([values.isEnabled("mpi"), values.isEnabled("robots")]).toEqual([false, true]);
});

test.each([
  [{ robots: { replica: 2 } }, "--values: unknown value robots.replica; see charts/keelson/README.md"],
  [{ robot: {} }, "--values: unknown value robot; see charts/keelson/README.md"],
  [{ robots: { replicas: 2 } }, "--values: robots.replicas: must be <= 1"],
  [{ mpi: { replicas: "two" } }, "--values: mpi.replicas: must be integer"],
  [{ logLevel: "loud" }, "--values: logLevel: must be one of debug, info, warn, error, silent"],
  [{ robots: { broker: { kind: "external" } } }, "--values: robots.broker.url: required for robots.broker.kind external"],
  [
    { robots: { broker: { kind: "mosquitto", credentialsSecret: "x" } } },
    "--values: robots.broker.mosquitto.passwordSecret: required for robots.broker.kind mosquitto",
  ],
  [[], "--values: a file must contain a map of values"],
] as readonly (readonly [JsonValue, string])[])("rejects %j and says what is allowed", (source, message) => {
  expect(() => read(source)).toThrow(message);
});
