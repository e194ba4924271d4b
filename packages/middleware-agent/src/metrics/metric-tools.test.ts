import { Code, createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ToolInvoker } from "../agent2.generated.ts";
import type { MiddlewareEngine } from "../engine.ts";
import { createMetricTools } from "./metric-tools.ts";

const clientOf = (program: Pick<MiddlewareEngine, "metrics">) =>
  createClient(
    ToolInvoker,
    createRouterTransport((router) => void router.service(ToolInvoker, createMetricTools(program))),
  );

it("serves the metrics of the program", async () => {
  const samples = [{ labels: { db: "db0" }, value: 1.5 }];
  const client = clientOf({ metrics: async () => [{ name: "example_keys", help: "Keys", type: "gauge", samples }] });
  const { families } = await client.metrics({});
  expect(families).toMatchObject([{ name: "example_keys", help: "Keys", type: "gauge", samples }]);
});

it("does not implement the method for a program without metrics", async () => {
  await expect(clientOf({}).metrics({})).rejects.toMatchObject({ code: Code.Unimplemented });
});
