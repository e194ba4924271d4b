import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* The examples whose steps run programs, as a user runs them. */

const examples = fileURLToPath(new URL("../../../../examples/testplane/", import.meta.url));
const folder = temporaryFolder();
let keelson: TestKeelson;
beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster,testplane");
}, 60_000);
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
}, 60_000);

test("the examples of scripts and requests pass", { timeout: 180_000 }, async () => {
  await keelson.kubectl("apply", "-f", `${examples}requests.yaml`);
  const files = ["script.yaml", "requests.yaml"].map((name) => `${examples}${name}`);
  await using run = startKeelson(["test", "run", ...files], { env: { KUBECONFIG: keelson.kubeconfig } });
  const status = await run.exited;
  expect(status, run.output()).toBe(0);
  // The Pods of the programs are deleted once their results are stored.
  const pods = () => keelson.kubectl("get", "pods", "-o", "name");
  await expect.poll(pods, { timeout: 60_000 }).toBe("pod/requests-server\n");
  // Programs outlive `keelson up`.
  await keelson.kubectl("delete", "integrationtests", "--all");
  await expect.poll(pods, { timeout: 60_000 }).toBe("");
});
