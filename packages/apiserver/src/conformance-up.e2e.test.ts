import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type KeelsonProcess, startKeelson, upArguments } from "keelson/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { createSeededRandom } from "./endpoints/random-source.ts";
import { type ApiConnection, connectApi } from "./testing/conformance/api-connection.ts";
import { loadCorpus, type Scenario } from "./testing/conformance/corpus.ts";
import { disturbances, isAllowed, unexplained } from "./testing/conformance/disturbances.ts";
import { valuesAt } from "./testing/conformance/document-path.ts";
import { expectedFailures } from "./testing/conformance/expected-failures.ts";
import { runScenario } from "./testing/conformance/run-scenario.ts";

const random = createSeededRandom(Date.now());
let dir: string;
let up: KeelsonProcess;
let connection: ApiConnection;

/** Connects with the administrator's certificate in a kubeconfig. */
async function connectAsAdministrator(kubeconfig: string): Promise<ApiConnection> {
  const config: unknown = parse(await readFile(kubeconfig, "utf8"));
  const at = (path: string): string => String(valuesAt(config, path)[0]);
  const pem = (path: string): string => Buffer.from(at(path), "base64").toString("utf8");
  return connectApi(at("/clusters/0/cluster/server"), pem("/clusters/0/cluster/certificate-authority-data"), {
    cert: pem("/users/0/user/client-certificate-data"),
    key: pem("/users/0/user/client-key-data"),
  });
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keelson-conformance-"));
  up = startKeelson(upArguments(dir, "--only", "apiserver,cluster"));
  await up.printed(/^ready$/m);
  connection = await connectAsAdministrator(join(dir, "keelson", "kubeconfig"));
});
afterAll(async () => {
  connection.close();
  await up.stop();
  await rm(dir, { recursive: true, force: true });
});

/** Whether a component acts before the scenario has ended is a matter of time, so a scenario that passes is run again up to this often. */
const maxRuns = 20;

function differencesOf(scenario: Scenario, patienceMs?: number): Promise<readonly string[]> {
  const run = `r${random.uuid().replaceAll("-", "").slice(0, 7)}`;
  return runScenario(connection, scenario, { run, token: "", ...(patienceMs === undefined ? {} : { patienceMs }) });
}

async function differencesOfDisturbed(scenario: Scenario, mayPass: boolean): Promise<readonly string[]> {
  for (let run = 1; ; run++) {
    const differences = await differencesOf(scenario, 0);
    if (mayPass || differences.length > 0 || run === maxRuns) return differences;
  }
}

const corpus = loadCorpus();

for (const { category, scenarios } of corpus) {
  describe(`recorded ${category}, against keelson up`, () => {
    for (const scenario of scenarios.filter(isAllowed)) {
      const name = `${category}/${scenario.name}`;
      const disturbance = disturbances.get(name);
      const reason = disturbance?.reason ?? expectedFailures.get(name);
      test.concurrent(`${scenario.name}: ${scenario.description}`, async ({ expect }) => {
        if (reason === undefined) {
          expect(unexplained(await differencesOf(scenario))).toEqual([]);
          return;
        }
        const mayPass = disturbance?.mayPass === true;
        const differences = await differencesOfDisturbed(scenario, mayPass);
        if (!mayPass) expect(differences, `passes although it is listed as a scenario that cannot (${reason})`).not.toEqual([]);
        if (disturbance !== undefined) expect(unexplained(differences, disturbance)).toEqual([]);
      });
    }
  });
}

test("every disturbance is that of a scenario", () => {
  const names = corpus.flatMap(({ category, scenarios }) =>
    scenarios.filter(isAllowed).map(({ name }) => `${category}/${name}`),
  );
  expect([...disturbances.keys()].filter((name) => !names.includes(name))).toEqual([]);
});
