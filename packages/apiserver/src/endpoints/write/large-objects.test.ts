import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sendRequest } from "../testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

const deployments = "/apis/apps/v1/namespaces/default/deployments";
const maps = "/api/v1/namespaces/default/configmaps";
const data = (count: number, prefix = "k"): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, "value"]));

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
});
afterEach(() => environment.stop());

/** Counts event-loop turns while `work` is in progress. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const tick = (): void => {
    turns += 1;
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  await work();
  isDone = true;
  return turns;
}

describe("a write to a large object", () => {
  const patch = (name: string) => () => sendRequest(environment, "PATCH", `${maps}/${name}`, { data: { a: "b" } }, "merge");

  it("lets other requests run between its steps, even if its own body is small", async () => {
    for (const [name, count] of [
      ["small", 1],
      ["large", 5_000],
    ] as const) {
      await sendRequest(environment, "POST", maps, { metadata: { name }, data: data(count) });
      await patch(name)();
    }
    const small = await turnsDuring(patch("small"));
    const large = await turnsDuring(patch("large"));
    expect(large).toBeGreaterThan(small + 15);
  });

  it("is rejected if a patch makes the object too large, and changes nothing", async () => {
    // Each list is one managed field, so that the test costs little more than the objects themselves.
    const container = (name: string): object => ({ name, image: "i", args: Array.from({ length: 35_000 }, () => "x") });
    const podLabels = { app: "grown" };
    const spec = {
      selector: { matchLabels: podLabels },
      template: { metadata: { labels: podLabels }, spec: { containers: [container("a")] } },
    };
    const created = await sendRequest(environment, "POST", deployments, { metadata: { name: "grown" }, spec });
    expect(created.code).toBe(201);
    const grow = (name: string) => {
      const patch = { spec: { template: { spec: { containers: [container(name)] } } } };
      return sendRequest(environment, "PATCH", `${deployments}/grown`, patch, "strategic");
    };
    expect((await grow("b")).code).toBe(200);
    expect(await grow("c")).toMatchObject({ code: 413, body: { message: "the object has more than 80000 values" } });
    const { body } = await sendRequest(environment, "GET", `${deployments}/grown`);
    const { containers } = body["spec"].template.spec;
    expect(containers.map(({ name, args }: { name: string; args: string[] }) => [name, args.length])).toEqual([
      ["b", 35_000],
      ["a", 35_000],
    ]);
  });
});
