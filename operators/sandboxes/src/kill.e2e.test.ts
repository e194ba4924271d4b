import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient as createRpcClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { serveApi, type ServedApi, systemRandom } from "@keelson/apiserver";
import { systemClock } from "@keelson/api-machinery";
import { type Client, createClient } from "@keelson/client";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { fastPathTokenFile } from "./fastpath-definition.ts";
import { FastPathService } from "./fastpath/generated/fastpath/v1/fastpath_pb.ts";
import { sandboxes } from "./operator.ts";
import { watched } from "./testing/watched.ts";

/** The operator in a process of its own, against a served API. Needs the build. */
const program = `
  import { connect } from "@keelson/client";
  import { startOperator } from "@keelson/controller";
  import { sandboxes } from ${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)};
  const [kubeconfig, dataDir] = process.argv.slice(1);
  const client = await connect({ kubeconfig });
  const running = await startOperator({ operator: sandboxes, client, dataDir, flags: { "fastpath-port": "0", "fastpath-orphan-timeout": "0s" } });
  process.stdout.write(running.endpoints.fastpath + "\\n");
  setInterval(() => {}, 1 << 30);
`;

let api: ServedApi;
let client: Client;
let base: string;
let child: ChildProcess | undefined;

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-kill-")));
  api = await serveApi({
    dataDir: join(base, "api"),
    bindAddress: "127.0.0.1",
    port: 0,
    clock: systemClock,
    random: systemRandom,
    onError: () => {},
  });
  client = createClient({ transport: api.server.transport(), fieldManager: "test" });
  for (const { crd } of sandboxes.resources) {
    await client.create(
      {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        scope: "Cluster",
      },
      crd as never,
    );
  }
});

afterEach(async () => {
  for (const { metadata } of (await client.list(Sandbox, { namespace: "default" })).items) {
    await client.delete(Sandbox, { namespace: "default", name: metadata.name ?? "" });
    await watched(client, Sandbox, metadata.name ?? "", (each) => each === undefined);
  }
  await kill();
  await api.close();
  rmSync(base, { recursive: true, force: true });
});

async function start(): Promise<string> {
  child = spawn(process.execPath, ["--input-type=module", "-e", program, api.kubeconfig, join(base, "operator")], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: new URL("..", import.meta.url).pathname,
  });
  const [line] = (await once(child.stdout ?? process.stdin, "data")) as [Buffer];
  return line.toString().trim();
}

async function kill(): Promise<void> {
  if (child === undefined || child.exitCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
  child = undefined;
}

function connect(url: string) {
  const token = readFileSync(fastPathTokenFile(join(base, "operator")), "utf8").trim();
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  return createRpcClient(FastPathService, createGrpcTransport({ baseUrl: url, interceptors: [authorize] }));
}

it("killed right after FAST creates, the next operator has each sandbox once: object, program and place", async () => {
  let fastPath = connect(await start());
  await client.create(SandboxPool, {
    metadata: { name: "pool", namespace: "default" },
    spec: { capacity: { poolMin: 1, poolMax: 1 }, maxSandboxesPerPod: 6 } as SandboxPool["spec"],
  });
  await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 1);
  const names = ["a", "b", "c", "d"];
  const asked = names.map((name) =>
    fastPath
      .createSandbox({ name, image: "host", poolRef: "pool", command: ["sh", "-c", "echo $$ >>starts; exec sleep 600"] })
      .then((created) => ({ name, id: created.sandboxId }))
      .catch(() => undefined),
  );
  // The first answer is out: the others are anywhere.
  await Promise.race(asked);
  await kill();
  const answered = (await Promise.all(asked)).filter((each) => each !== undefined);
  expect(answered.length).toBeGreaterThan(0);

  fastPath = connect(await start());
  for (const { name, id } of answered) {
    const sandbox = await watched(client, Sandbox, name, (each) => each?.status?.phase === "Running");
    expect(sandbox?.status?.sandboxID).toBe(id);
    const programs = join(base, "operator", "agents", "default_pool_pool-agent-0_6", "programs");
    expect(
      readFileSync(join(programs, id, "work", "starts"), "utf8")
        .trim()
        .split("\n"),
    ).toHaveLength(1);
  }
  // Whatever was not answered is there whole or not at all, and its name can be used again.
  for (const name of names) {
    const present = await fastPath.getSandbox({ sandboxName: name }).catch(() => undefined);
    if (present === undefined)
      await fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"] });
    await watched(client, Sandbox, name, (each) => each?.status?.phase === "Running");
  }
});
