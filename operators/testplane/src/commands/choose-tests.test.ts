import { expect, test } from "vitest";
import { chooseTests } from "./choose-tests.ts";
import type { TestManifest } from "./test-files.ts";

const manifests = Array.from({ length: 7 }, (_, index) => ({
  ...{ kind: "IntegrationTest", name: `t${index}`, namespace: undefined, source: "x.yaml", spec: {} },
  labels: { app: index % 2 === 0 ? "web" : "db" },
})) as unknown as readonly TestManifest[];
const names = (flags: Record<string, string>): readonly string[] => chooseTests(manifests, flags).map(({ name }) => name);

test("selects all tests, those with labels, or a part", () => {
  expect(names({})).toHaveLength(7);
  expect(names({ selector: "app=db" })).toEqual(["t1", "t3", "t5"]);
  expect(names({ selector: "app=web", shard: "2/2" })).toEqual(["t2", "t6"]);
});

test("shards are disjoint and complete", () => {
  const all = ["1/3", "2/3", "3/3"].flatMap((shard) => names({ shard }));
  expect(all.toSorted()).toEqual(names({}));
});

test.each(["0/2", "3/2", "1", "1/0", "a/b"])("rejects the shard %s", (shard) => {
  expect(() => names({ shard })).toThrow("--shard: must be I/N with I between 1 and N");
});

test("rejects an invalid selector", () => {
  expect(() => names({ selector: "a==b==c" })).toThrow(/^--selector: /);
});
