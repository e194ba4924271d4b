import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { createFastPathClient, type FastPathClient } from "../fastpath/client.ts";
import { fastPathTokenFile } from "../fastpath/access/describe-access.ts";
import { sandboxes } from "../operator.ts";
import { deleteAll } from "./delete-all.ts";
import type { TestCluster } from "@keelson/cluster/testing";
import { startLocalCluster } from "./local-cluster.ts";

/** Namespace of all that tests make. */
export const namespace = "default";

/** The family on its own cluster, with real agents and programs. */
export interface LocalSandboxes extends FastPathClient {
  readonly cluster: TestCluster;
  readonly client: Client;
  /** Where the fast path listens, and what it asks of callers. */
  readonly url: string;
  readonly token: string;
  /** The operator's directory. */
  readonly dataDir: string;
  /** Starts the operator again, with this client if given. */
  restart(as?: Client): Promise<void>;
  /** Deletes all objects, as a user would, and stops everything. */
  stop(): Promise<void>;
  pool(
    capacity?: NonNullable<SandboxPool["spec"]["capacity"]>,
    maxSandboxesPerPod?: number,
    spec?: Partial<SandboxPool["spec"]>,
  ): Promise<void>;
  sandbox(name: string, spec?: Partial<Sandbox["spec"]>): Promise<void>;
  /** Waits for a phase of a Sandbox; `undefined`: until it is gone. */
  phase(name: string, wanted: string | undefined): Promise<DeepReadonly<Sandbox> | undefined>;
}

/** Starts the operator with free ports and no grace period for young orphans. `given` overrides flags. */
export async function startLocalSandboxes(given: Readonly<Record<string, string>> = {}): Promise<LocalSandboxes> {
  const dataDir = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-test-")));
  const cluster = await startLocalCluster(dataDir);
  const { client } = cluster;
  const flags = { "fastpath-port": "0", "fastpath-orphan-timeout": "0s", ...given };
  const start = (as: Client): Promise<RunningOperator> => startOperator({ operator: sandboxes, client: as, dataDir, flags });
  let operator = await start(client);
  const token = readFileSync(fastPathTokenFile(dataDir), "utf8").trim();
  const connect = (): FastPathClient => createFastPathClient({ baseUrl: operator.endpoints.fastpath ?? "", token });
  let connection = connect();
  return {
    ...{ cluster, client, token, dataDir },
    get url() {
      return operator.endpoints.fastpath ?? "";
    },
    get fastPath() {
      return connection.fastPath;
    },
    get streams() {
      return connection.streams;
    },
    get files() {
      return connection.files;
    },
    get processes() {
      return connection.processes;
    },
    get ports() {
      return connection.ports;
    },
    get volumes() {
      return connection.volumes;
    },
    get usage() {
      return connection.usage;
    },
    get lifecycle() {
      return connection.lifecycle;
    },
    async restart(as = client) {
      await operator.stop();
      operator = await start(as);
      connection = connect();
    },
    async stop() {
      await deleteAll(client, namespace);
      await operator.stop();
      await cluster.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
    async pool(capacity = { poolMin: 1, poolMax: 2 }, maxSandboxesPerPod = 2, spec = {}) {
      await createPool(client, { capacity, maxSandboxesPerPod, ...spec });
    },
    sandbox: (name, spec = {}) => createSandbox(client, name, spec),
    phase: (name, wanted) =>
      watched(client, Sandbox, name, (each) => (wanted === undefined ? each === undefined : each?.status?.phase === wanted)),
  };
}

async function createSandbox(client: Client, name: string, spec: Partial<Sandbox["spec"]>): Promise<void> {
  const whole = { image: "host", poolRef: "pool", command: ["sleep", "600"], ...spec } as Sandbox["spec"];
  await client.create(Sandbox, { metadata: { name, namespace }, spec: whole });
}

async function createPool(client: Client, spec: SandboxPool["spec"]): Promise<void> {
  await client.create(SandboxPool, { metadata: { name: "pool", namespace }, spec });
  const { poolMin = 0 } = spec.capacity ?? {};
  await watched(client, SandboxPool, "pool", (each) => (each?.status?.readyPods ?? 0) >= poolMin);
}
