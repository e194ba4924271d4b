import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery";
import { createClient } from "@keelson/client";
import { startCluster, startGarbageCollector, startNamespaceController } from "@keelson/cluster";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSeededRandom, systemRandom } from "./endpoints/random-source.ts";
import type { ResourceTable } from "./registry/served-resource.ts";
import { type ServedApi, type ServeApiOptions, serveApi } from "./serve-api.ts";
import { type ApiConnection, connectApi } from "./testing/conformance/api-connection.ts";
import { loadCorpus, type Scenario } from "./testing/conformance/corpus.ts";
import { expectedFailures } from "./testing/conformance/expected-failures.ts";
import { runScenario } from "./testing/conformance/run-scenario.ts";

const token = randomUUID();
const random = createSeededRandom(Date.now());

/** A server with what runs beside it. */
interface Environment {
  readonly connection: ApiConnection;
  stop(): Promise<void>;
}

/** Starts a server and, beside it, garbage collection and namespaces, or all controllers of a cluster. */
async function startEnvironment(
  storage: ServeApiOptions["storage"],
  controllers: "garbage-collector" | "all",
): Promise<Environment> {
  const dataDir = await mkdtemp(join(tmpdir(), "keelson-conformance-"));
  const api: ServedApi = await serveApi({
    dataDir,
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { sync: false, ...storage },
    staticTokens: new Map([[token, { username: "admin", groups: ["system:masters"] }]]),
    anonymous: true,
  });
  const { resources } = api.server;
  const options = {
    client: createClient({ transport: api.server.transport(), fieldManager: "kube-controller-manager" }),
    kinds: {
      list: () => storedKinds(resources),
      onChange: (listener: () => void) => resources.onChange(listener),
    },
    clock: systemClock,
    random: () => random.below(1_000) / 1_000,
    log: silentLogger,
  };
  const stops: (() => Promise<void>)[] = [];
  if (controllers === "all") {
    const cluster = await startCluster(options);
    stops.push(() => cluster.stop());
  } else {
    const collector = startGarbageCollector(options);
    const namespaces = startNamespaceController({ ...options, collector });
    stops.push(
      () => namespaces.stop(),
      () => collector.stop(),
    );
  }
  const connection = connectApi(api.url, await readFile(join(dataDir, "pki", "ca.crt"), "utf8"));
  return {
    connection,
    async stop() {
      connection.close();
      for (const stop of stops) await stop();
      await api.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** What garbage collection follows: each kind once, in the version that is stored. */
function storedKinds(resources: ResourceTable) {
  return resources
    .list()
    .filter(({ verbs }) => verbs.includes("delete") && verbs.includes("watch"))
    .filter(({ group, version, storageApiVersion }) => storageApiVersion === (group === "" ? version : `${group}/${version}`))
    .map(({ group, version, kind, plural, scope }) => ({ group, version, kind, plural, scope }));
}

type Surroundings = "plain" | "compacted" | "workloads";
const environments = new Map<Surroundings, Environment>();

beforeAll(async () => {
  environments.set("plain", await startEnvironment({}, "garbage-collector"));
  environments.set("compacted", await startEnvironment({ historyEvents: 1 }, "garbage-collector"));
  environments.set("workloads", await startEnvironment({}, "all"));
});
afterAll(async () => {
  for (const environment of environments.values()) await environment.stop();
});

function surroundingsOf({ requires = [] }: Scenario): Surroundings {
  if (requires.includes("compacted-history")) return "compacted";
  return requires.includes("workload-controllers") ? "workloads" : "plain";
}

async function differencesOf(scenario: Scenario): Promise<readonly string[]> {
  const environment = environments.get(surroundingsOf(scenario));
  if (environment === undefined) throw new Error("the server was not started");
  const run = `r${random.uuid().replaceAll("-", "").slice(0, 7)}`;
  return runScenario(environment.connection, scenario, { run, token });
}

const corpus = loadCorpus();

for (const { category, scenarios } of corpus) {
  describe(`recorded ${category}`, () => {
    for (const scenario of scenarios) {
      test.concurrent(`${scenario.name}: ${scenario.description}`, async ({ expect }) => {
        const reason = expectedFailures.get(`${category}/${scenario.name}`);
        const differences = await differencesOf(scenario);
        if (reason === undefined) expect(differences).toEqual([]);
        else expect(differences, `passes although it is listed as an expected failure (${reason})`).not.toEqual([]);
      });
    }
  });
}

test("every expected failure is the name of a scenario", () => {
  const names = corpus.flatMap(({ category, scenarios }) => scenarios.map(({ name }) => `${category}/${name}`));
  expect([...expectedFailures.keys()].filter((name) => !names.includes(name))).toEqual([]);
});
