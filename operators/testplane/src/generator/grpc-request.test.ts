import { once } from "node:events";
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, createFileRegistry, type DescService, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, expect, it } from "vitest";
import { ServerReflection } from "../generated/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../generated/grpc/reflection/v1alpha/reflection_pb.ts";
import { createRequester } from "./create-requester.ts";
import type { GeneratorReport } from "./generator-report.ts";
import type { GrpcPlan, LoadPlan } from "./load-plan.ts";
import { runGenerator } from "./run-generator.ts";

const items = fromJson(FileDescriptorProtoSchema, {
  name: "shop/items.proto",
  package: "shop.v1",
  syntax: "proto3",
  messageType: [
    { name: "Item", field: [{ name: "sku", number: 1, type: "TYPE_STRING", label: "LABEL_OPTIONAL", jsonName: "sku" }] },
  ],
});
const carts = fromJson(FileDescriptorProtoSchema, {
  name: "shop/carts.proto",
  package: "shop.v1",
  syntax: "proto3",
  dependency: ["shop/items.proto"],
  messageType: [
    {
      name: "AddRequest",
      field: [
        { name: "user", number: 1, type: "TYPE_STRING", label: "LABEL_OPTIONAL", jsonName: "user" },
        {
          name: "items",
          number: 2,
          type: "TYPE_MESSAGE",
          typeName: ".shop.v1.Item",
          label: "LABEL_REPEATED",
          jsonName: "items",
        },
      ],
    },
    { name: "AddReply" },
  ],
  service: [{ name: "Carts", method: [{ name: "Add", inputType: ".shop.v1.AddRequest", outputType: ".shop.v1.AddReply" }] }],
});
const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: [items, carts] }));
const Carts = registry.getService("shop.v1.Carts") as DescService;
const descriptorSet = Buffer.from(
  toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file: [carts, items] })),
).toString("base64");

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** A shop whose every fourth call finds nothing. Serves reflection with `reflection`, one file at a time. */
async function serveShop(reflection?: DescService) {
  const seen: { message: unknown; token: string | null }[] = [];
  const files = new Map([items, carts].map((file) => [file.name, file]));
  const routes = (router: ConnectRouter): void => {
    router.service(Carts, {
      add(request: never, context: { requestHeader: Headers }) {
        seen.push({ message: toJson(Carts.methods[0]?.input as never, request), token: context.requestHeader.get("x-token") });
        if (seen.length % 4 === 0) throw new ConnectError("no such user", Code.NotFound);
        return {};
      },
    } as never);
    if (reflection === undefined) return;
    router.service(reflection as typeof ServerReflection, {
      async *serverReflectionInfo(requests) {
        for await (const { messageRequest: question } of requests) {
          const file = question.value === "shop.v1.Carts" ? carts : files.get(question.value ?? "");
          yield file === undefined
            ? { messageResponse: { case: "errorResponse" as const, value: { errorCode: 5, errorMessage: "symbol not found" } } }
            : {
                messageResponse: {
                  case: "fileDescriptorResponse" as const,
                  value: { fileDescriptorProto: [toBinary(FileDescriptorProtoSchema, file)] },
                },
              };
        }
      },
    });
  };
  const url = await serve(connectNodeAdapter({ routes }));
  return { url, seen };
}

async function serve(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer({}, handler as never);
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(async () => {
    for (const session of sessions) session.destroy();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const call: GrpcPlan = {
  service: "shop.v1.Carts",
  method: "Add",
  message: { user: "ada", items: [{ sku: "k8s" }] },
  expectedCodes: ["OK"],
};

async function load(url: string, grpc: GrpcPlan): Promise<GeneratorReport> {
  const plan: LoadPlan = {
    ...{ model: "open", stages: [{ durationMs: 500, from: 400, to: 400 }] },
    ...{ maxConnections: 2, timeoutMs: 30_000, thinkTimeMs: 0, worker: 0, workers: 1 },
    request: { url, method: "GET", headers: { "X-Token": "t" }, protocol: "HTTP/2", insecureSkipTlsVerify: false, grpc },
  };
  const requester = await createRequester(plan);
  const { signal } = new AbortController();
  const print = (): Promise<void> => Promise.resolve();
  return runGenerator({ plan, requester, clock: systemClock, signal, maxPauseMs: () => 0, print });
}

it.each([
  ["v1", ServerReflection],
  ["v1alpha", ServerReflectionAlpha],
])("calls a method that it knows by reflection %s, and counts the codes", { timeout: 60_000 }, async (_, reflection) => {
  const shop = await serveShop(reflection);
  const report = await load(shop.url, call);
  expect(report).toMatchObject({
    requests: 200,
    failed: 50,
    isComplete: true,
    statusCodes: { OK: 150, NOT_FOUND: 50 },
    errors: {},
  });
  expect(shop.seen).toHaveLength(200);
  expect(shop.seen[0]).toEqual({ message: { user: "ada", items: [{ sku: "k8s" }] }, token: "t" });
});

it("calls a method of a descriptor set, and accepts the expected codes", { timeout: 60_000 }, async () => {
  const shop = await serveShop();
  const report = await load(shop.url, { ...call, descriptorSet, expectedCodes: ["OK", "NOT_FOUND"] });
  expect(report).toMatchObject({ requests: 200, failed: 0, statusCodes: { OK: 150, NOT_FOUND: 50 } });
});

it("fails requests to a server without gRPC", { timeout: 60_000 }, async () => {
  const url = await serve((_, response) => response.writeHead(404).end());
  const report = await load(url, { ...call, descriptorSet });
  expect(report).toMatchObject({ requests: 200, failed: 200, statusCodes: { 404: 200 }, errors: { NoGrpcStatus: 200 } });
});

it.each<[string, Partial<GrpcPlan>, RegExp]>([
  [
    "service",
    { service: "shop.v1.Orders", descriptorSet },
    /^service shop\.v1\.Orders not found: must be one of shop\.v1\.Carts$/,
  ],
  ["service by reflection", { service: "shop.v1.Orders" }, /^descriptor of shop\.v1\.Orders: .*symbol not found/],
  ["method", { method: "Remove", descriptorSet }, /^method Remove of shop\.v1\.Carts not found: must be one of Add$/],
  ["field", { message: { usr: "ada" }, descriptorSet }, /^message: .*"usr"/],
  ["descriptor set", { descriptorSet: "AAAA" }, /^descriptor of shop\.v1\.Carts: /],
])("names an unknown %s", async (_, part, message) => {
  const { url } = await serveShop(ServerReflection);
  await expect(load(url, { ...call, ...part })).rejects.toThrow(message);
});

it("names a server without reflection", async () => {
  const { url } = await serveShop();
  await expect(load(url, call)).rejects.toThrow(/^descriptor of shop\.v1\.Carts: .*unimplemented/);
});
