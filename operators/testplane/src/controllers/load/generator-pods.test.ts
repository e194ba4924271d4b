import { describe, expect, it } from "vitest";
import type { LoadGenerator } from "../../api/load-generator.ts";
import type { LoadPlan } from "../../generator/load-plan.ts";
import { validateLoadGenerator } from "../../manifests/validate-load-generator.ts";
import { generatorPodNames, generatorPods } from "./generator-pods.ts";

const program = { command: ["node", "program.js"], image: "keelson:1" };
const base: LoadGenerator = { url: "http://web/", rate: 10, duration: "5s" };

interface PodObject {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly containers: readonly { readonly image: string; readonly env: readonly { readonly value: string }[] }[];
  };
}

/** The Pods of a generator, and their plans. */
function pods(generator: LoadGenerator, values: Readonly<Record<string, string>> = {}) {
  const result = generatorPods(generator, "t", values, program);
  if (result.kind === "error") throw new Error(result.message);
  const objects = result.value as unknown as readonly PodObject[];
  const plans = objects.map(({ spec }) => JSON.parse(spec.containers[0]?.env[0]?.value ?? "") as LoadPlan);
  return { objects, plans };
}

describe("the Pods of a load generator", () => {
  it("share the load, each with its own number", () => {
    const { objects, plans } = pods({ ...base, workers: 3 });
    expect(objects.map(({ metadata }) => metadata.name)).toEqual(generatorPodNames({ ...base, workers: 3 }, "t"));
    expect(objects[0]?.spec).toMatchObject({ automountServiceAccountToken: false, restartPolicy: "Never" });
    expect(plans.map(({ worker, workers }) => [worker, workers])).toEqual([
      [0, 3],
      [1, 3],
      [2, 3],
    ]);
    expect(plans[0]).toMatchObject({ model: "open", stages: [{ durationMs: 5_000, from: 10, to: 10 }], maxConnections: 100 });
  });

  it("insert values of the target in URL, headers and body", () => {
    const texts = { headers: [{ name: "X-Id", value: "${{ values.ID }}" }], body: "id=${{ values.ID }}" };
    const { plans } = pods({ ...base, ...texts, url: "http://${{ values.HOST }}/" }, { HOST: "a:1", ID: "7" });
    expect(plans[0]?.request).toMatchObject({ url: "http://a:1/", headers: { "X-Id": "7" }, body: "id=7" });
  });

  it("are not created if a value is missing or yields no URL", () => {
    for (const [url, message] of [
      ["http://${{ values.NO }}/", "values.NO"],
      ["${{ values.HOST }}", '"file:///x" is not an http or https URL'],
    ] as const) {
      const result = generatorPods({ ...base, url }, "t", { HOST: "file:///x" }, program);
      expect(result).toMatchObject({ kind: "error", message: expect.stringContaining(message) as unknown });
    }
  });

  it("have as many connections as users by default, and follow the stages", () => {
    const stages = [
      { duration: "1s", users: 100 },
      { duration: "2s", users: 0 },
    ];
    const { plans } = pods({ url: "http://web/", users: 20, stages, workers: 2 });
    expect(plans[1]).toMatchObject({
      ...{ model: "closed", maxConnections: 50 },
      stages: [
        { durationMs: 1_000, from: 20, to: 100 },
        { durationMs: 2_000, from: 100, to: 0 },
      ],
    });
    expect(pods({ ...base, protocol: "HTTP/2" }).plans[0]?.maxConnections).toBe(4);
    const users = { url: "http://web/", duration: "5s", protocol: "HTTP/2" } as const;
    expect(pods({ ...users, users: 10 }).plans[0]?.maxConnections).toBe(4);
    expect(pods({ ...users, users: 1_050 }).plans[0]?.maxConnections).toBe(11);
  });
});

describe("the size of a load generator's plan", () => {
  const headers = Array.from({ length: 17 }, (_, index) => ({ name: `X-${index}`, value: "a".repeat(8_000) }));

  it("is at most that of an environment variable", () => {
    expect(validateLoadGenerator({ ...base, headers }, "g")).toEqual([expect.stringMatching(/^g\.headers: too long/)]);
    expect(validateLoadGenerator({ ...base, headers: headers.slice(1) }, "g")).toEqual([]);
    const body = "\u0001".repeat(30_000);
    expect(validateLoadGenerator({ ...base, body }, "g")).toEqual([expect.stringMatching(/^g\.body: too long/)]);
  });

  it("is checked again with the values of the target", () => {
    const body = "${{ values.LONG }}";
    expect(generatorPods({ ...base, body }, "t", { LONG: "a".repeat(200_000) }, program)).toMatchObject({
      kind: "error",
      message: expect.stringContaining("spec.workload.generator.body: ") as unknown,
    });
  });
});

describe("the validation of a load generator", () => {
  it.each<[string, Partial<Record<keyof LoadGenerator, unknown>>, string]>([
    ["both models", { users: 1 }, "g: must have only one of rate (open model) and users (closed model)"],
    ["no model", { rate: undefined }, "g: must have rate (open model), users (closed model), or stages with one of them"],
    ["no duration", { duration: undefined }, "g.duration: required without stages"],
    ["a duration of 0", { duration: "0s" }, "g: the load must last longer than 0s"],
    ["duration and stages", { stages: [{ duration: "1s", rate: 1 }] }, "g.duration: not allowed with stages"],
    ["an empty stage", { duration: undefined, stages: [{ duration: "1s" }] }, "g.stages[0]: must have rate or users"],
    ["another scheme", { url: "ftp://x" }, 'g.url: "ftp://x" is not an http or https URL'],
    ["credentials", { url: "http://a:b@x" }, "g.url: must not contain credentials; use a header"],
    [
      "a method of HTTP with gRPC",
      { grpc: { service: "shop.Carts", method: "Add" }, method: "POST" },
      "g.method: not allowed with grpc",
    ],
    [
      "a path with gRPC",
      { grpc: { service: "shop.Carts", method: "Add" }, url: "http://a/b" },
      "g.url: must have no path with grpc",
    ],
    ["a pause without users", { thinkTime: "1s" }, "g.thinkTime: requires users"],
    ["an unknown variable", { url: "http://${{ params.X }}" }, "g.url: ${{ params.X }}: "],
    ["no time for a request", { requestTimeout: "0s" }, "g.requestTimeout: must be greater than 0s"],
  ])("rejects %s", (_, change, message) => {
    const generator = JSON.parse(JSON.stringify({ ...base, ...change })) as LoadGenerator;
    expect(validateLoadGenerator(generator, "g")).toEqual([expect.stringContaining(message)]);
    expect(validateLoadGenerator(base, "g")).toEqual([]);
  });
});
