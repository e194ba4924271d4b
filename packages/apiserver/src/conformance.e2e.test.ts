import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { clusterControllers, garbageCollection } from "@keelson/cluster/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSeededRandom, systemRandom } from "./endpoints/random-source.ts";
import { serveApi } from "./serving/serve-api.ts";
import type { ServedApi, ServeApiOptions } from "./serving/serve-options.ts";
import { type ApiConnection, connectApi } from "./testing/conformance/api-connection.ts";
import { loadCorpus, type Scenario } from "./testing/conformance/corpus.ts";
import { expectedFailures } from "./testing/conformance/expected-failures.ts";
import { runScenario } from "./testing/conformance/run-scenario.ts";

const token = randomUUID();
const random = createSeededRandom(Date.now());

/** A server with what runs alongside it. */
interface Environment {
  readonly connection: ApiConnection;
  stop(): Promise<void>;
}

/** Starts a server and, alongside it, garbage collection and namespaces, or all controllers of a cluster. */
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
  const run = controllers === "all" ? clusterControllers : garbageCollection;
  const running = await run({ ...api.server, clock: systemClock });
  const connection = connectApi(api.url, await readFile(join(dataDir, "pki", "ca.crt"), "utf8"));
  return {
    connection,
    async stop() {
      connection.close();
      await running.stop();
      await api.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
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
