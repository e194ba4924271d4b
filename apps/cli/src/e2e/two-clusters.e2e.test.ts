import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { expect, test } from "vitest";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** A Pod on a port that both clusters use, and its Service. */
async function serve(keelson: TestKeelson, folder: string, answer: string): Promise<void> {
  const script = `require("node:http").createServer((_, response) => response.end("${answer}")).listen(8000, process.env.KEELSON_POD_IP)`;
  const container = {
    name: "main",
    image: "none",
    command: [process.execPath, "-e", script],
    readinessProbe: { httpGet: { port: 8000 }, periodSeconds: 1 },
  };
  const objects = [
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "web", labels: { app: "web" } },
      spec: { terminationGracePeriodSeconds: 1, containers: [container] },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web" },
      spec: { selector: { app: "web" }, ports: [{ port: 8080, targetPort: 8000 }] },
    },
  ];
  const file = join(folder, "objects.yaml");
  writeFileSync(file, objects.map((each) => stringify(each)).join("---\n"));
  await keelson.kubectl("apply", "-f", file);
}

test("two keelson up on one machine run Pods and Services on the same ports", async () => {
  using one = temporaryFolder();
  using other = temporaryFolder();
  await using first = await startTestKeelson(one.path, "--only", "cluster");
  await using second = await startTestKeelson(other.path, "--only", "cluster");
  const both = [
    { keelson: first, folder: one.path, answer: "first" },
    { keelson: second, folder: other.path, answer: "second" },
  ];
  const addresses = await Promise.all(
    both.map(async ({ keelson, folder, answer }) => {
      await serve(keelson, folder, answer);
      await keelson.kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=45s");
      const address = await keelson.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}");
      const get = async (): Promise<string> => (await fetch(`http://${address}:8080/`)).text();
      await expect.poll(() => get().catch(String), { timeout: 20_000 }).toBe(answer);
      const pod = await keelson.kubectl("get", "pod", "web", "-o", "jsonpath={.status.podIP}");
      return [address, pod].map((each) => each.split(".").slice(0, 2).join("."));
    }),
  );
  expect(new Set(addresses.flat()).size).toBe(4);
  await Promise.all(both.map(({ keelson }) => keelson.kubectl("delete", "pod", "web", "--timeout=40s")));
});
