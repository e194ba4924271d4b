import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* The IntegrationTests of the other families run as a user runs them, at the same time on one `keelson up`. */

const examples = fileURLToPath(new URL("../../../../examples/", import.meta.url));
const program = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));
const families = join(examples, "testplane/families");
const folder = temporaryFolder();
let keelson: TestKeelson;

beforeAll(async () => {
  for (const mpi of ["openmpi", "mpich"])
    execFileSync(`mpicc.${mpi}`, ["-O2", "-o", join(folder.path, `pi-${mpi}`), join(examples, "mpi/pi.c")]);
  keelson = await startTestKeelson(folder.path);
  await keelson.kubectl("apply", "-f", join(families, "permissions.yaml"));
});
afterAll(async () => {
  // Programs outlive `keelson up`.
  await keelson.kubectl("delete", "integrationtests", "--all");
  await keelson.kubectl("delete", "sandboxes,sandboxpools,apps.middleware.io,rhinojobs,mpijobs", "--all", "--timeout=45s");
  await keelson.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=45s");
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const parameters: Readonly<Record<string, () => Readonly<Record<string, string>>>> = {
  robots: () => ({
    keelson: JSON.stringify([process.execPath, program]),
    broker: keelson.brokerUrl,
    token: join(keelson.dataDir, "robots/join-token"),
    folder: join(folder.path, "robots"),
  }),
  middleware: () => ({}),
  mpi: () => ({ programs: folder.path }),
  sandboxes: () => ({}),
};

test.concurrent.for(Object.keys(parameters))("the test of %s passes", { timeout: 300_000 }, async (family) => {
  const flags = Object.entries(parameters[family]?.() ?? {}).map(([name, value]) => `--param=${name}=${value}`);
  const env = { KUBECONFIG: keelson.kubeconfig };
  await using run = startKeelson(["test", "run", join(families, `${family}.yaml`), ...flags], { env });
  expect(await run.exited, run.output()).toBe(0);
});
