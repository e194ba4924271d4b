import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { expect, onTestFinished, test } from "vitest";
import { startTestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const namespace = "default";

/** Watches Pods until the predicate holds for all of them. */
async function podsThat(client: Client, isWanted: (pods: readonly PodObject[]) => boolean): Promise<readonly PodObject[]> {
  const pods = new Map<string, PodObject>();
  const watch = await client.watch(Pod, { namespace, signal: AbortSignal.timeout(90_000) });
  try {
    for await (const event of watch) {
      if (event.type === "BOOKMARK") continue;
      const pod = event.object as PodObject;
      if (event.type === "DELETED") pods.delete(pod.metadata.name ?? "");
      else pods.set(pod.metadata.name ?? "", pod);
      if (isWanted([...pods.values()])) return [...pods.values()];
    }
  } finally {
    watch.close();
  }
  throw new Error("the watch ended");
}

/** Start time of a process in clock ticks since boot, which identifies it together with its pid. `undefined` once it has exited. */
function startTicks(pid: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[19];
  } catch {
    return undefined;
  }
}

/** A container that records its pid (`$$$$` yields `$$` in a command) below `dir` and exits with `code` once the file `go` exists. */
function container(dir: string, code: number, more = ""): string {
  const script = `echo $$$$ >> ${dir}/$NAME; while [ ! -e ${dir}/go-$KIND ]; do sleep 0.1; done; exit ${code}`;
  const name = "{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}";
  const kind = `{name: KIND, valueFrom: {fieldRef: {fieldPath: "metadata.labels['kind']"}}}`;
  return `{name: main, image: none, command: [/bin/sh, -c, '${script}'], env: [${name}, ${kind}]${more}}`;
}

/** Twenty Pods; those labelled `ends` exit while no kubelet runs. */
function manifest(dir: string): string {
  const spec = (text: string): string => `{terminationGracePeriodSeconds: 1, ${text}}`;
  const lasting = "{app: lasting, kind: lasts}";
  const ordered = "{app: ordered, kind: lasts}";
  const job = (name: string, kind: string, count: number, code: number): string => `
apiVersion: batch/v1
kind: Job
metadata: {name: ${name}}
spec:
  completions: ${count}
  parallelism: ${count}
  backoffLimit: 0
  template:
    metadata: {labels: {kind: ${kind}}}
    spec: ${spec(`restartPolicy: Never, containers: [${container(dir, code)}]`)}`;
  const bare = (name: string, kind: string, code: number): string => `
apiVersion: v1
kind: Pod
metadata: {name: ${name}, labels: {kind: ${kind}}}
spec: ${spec(`restartPolicy: Never, containers: [${container(dir, code)}]`)}`;
  return [
    `
apiVersion: apps/v1
kind: Deployment
metadata: {name: lasting}
spec:
  replicas: 6
  selector: {matchLabels: ${lasting}}
  template:
    metadata: {labels: ${lasting}}
    spec: ${spec(`containers: [${container(dir, 0)}]`)}`,
    `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ordered}
spec:
  replicas: 4
  serviceName: ordered
  podManagementPolicy: Parallel
  selector: {matchLabels: ${ordered}}
  template:
    metadata: {labels: ${ordered}}
    spec: ${spec(`containers: [${container(dir, 0, ", volumeMounts: [{name: data, mountPath: /data}]")}]`)}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}`,
    job("lasts", "lasts", 2, 0),
    job("good", "ends", 3, 0),
    job("bad", "ends", 1, 3),
    bare("bare-1", "lasts", 0),
    bare("bare-2", "lasts", 0),
    bare("seven", "ends", 7),
    bare("zero", "ends", 0),
  ].join("\n---");
}

const isThere = (start: string | undefined): boolean => start !== undefined;
const isReady = ({ status }: PodObject): boolean =>
  status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") === true;
const mainOf = ({ status }: PodObject) => status?.containerStatuses?.[0];

test("after kill -9 with 20 Pods, adopts all of them, restarts none, and knows the exit codes of those that ended in the meantime", {
  timeout: 240_000,
}, async () => {
  using folder = temporaryFolder();
  const dir = join(folder.path, "pids");
  mkdirSync(dir);
  // Release the programs even if the test fails.
  onTestFinished(() => {
    if (existsSync(dir)) for (const kind of ["ends", "lasts"]) writeFileSync(join(dir, `go-${kind}`), "");
  });
  const file = join(folder.path, "pods.yaml");
  writeFileSync(file, manifest(dir));

  const first = await startTestKeelson(folder.path, "--only", "cluster");
  await first.kubectl("apply", "-f", file);
  const firstClient = await first.client();
  const before = await podsThat(firstClient, (pods) => pods.length === 20 && pods.every(isReady));
  await firstClient.close();
  await expect.poll(() => readdirSync(dir).length).toBe(20);
  const pidOf = (pod: PodObject): string => readFileSync(join(dir, pod.metadata.name ?? ""), "utf8").trim();
  const starts = new Map(before.map((pod) => [pod.metadata.name, startTicks(pidOf(pod))]));
  expect([...starts.values()]).not.toContain(undefined);

  first.process.child.kill("SIGKILL");
  expect(await first.process.exited).toBe("SIGKILL");
  const lasting = before.filter(({ metadata }) => metadata.labels?.["kind"] === "lasts");
  expect(lasting.length).toBe(14);
  for (const pod of before) expect(startTicks(pidOf(pod))).toBe(starts.get(pod.metadata.name));
  const ending = before.filter((pod) => !lasting.includes(pod)).map((pod) => pidOf(pod));
  writeFileSync(join(dir, "go-ends"), "");
  await expect.poll(() => ending.map(startTicks).filter(isThere)).toEqual([]);

  await using second = await startTestKeelson(folder.path, "--only", "cluster");
  const client = await second.client();
  onTestFinished(() => client.close());
  const isEnded = ({ status }: PodObject): boolean => status?.phase === "Succeeded" || status?.phase === "Failed";
  const after = await podsThat(client, (pods) => pods.filter(isEnded).length === 6);
  expect(after.map(({ metadata }) => metadata.uid).sort()).toEqual(before.map(({ metadata }) => metadata.uid).sort());
  const codes = new Map(
    after.map((pod) => [pod.metadata.name?.replace(/-\w{5}$/, ""), mainOf(pod)?.state?.terminated?.exitCode]),
  );
  expect([codes.get("seven"), codes.get("zero"), codes.get("bad"), codes.get("good")]).toEqual([7, 0, 3, 0]);
  await second.kubectl("wait", "job/good", "--for=condition=Complete", "--timeout=40s");
  await second.kubectl("wait", "job/bad", "--for=condition=Failed", "--timeout=40s");

  // Running Pods keep their address, container id, start time and readiness.
  for (const old of lasting) {
    const pod = after.find(({ metadata }) => metadata.uid === old.metadata.uid);
    expect(pod).toBeDefined();
    if (pod === undefined) continue;
    expect(startTicks(pidOf(pod))).toBe(starts.get(pod.metadata.name));
    expect(mainOf(pod)).toEqual(mainOf(old));
    expect(pod.status?.podIP).toBe(old.status?.podIP);
    expect(isReady(pod)).toBe(true);
  }
  // Supervision continues: deleting a Pod ends its program, and the StatefulSet replaces it.
  const ordered = lasting.find(({ metadata }) => metadata.name === "ordered-0");
  await second.kubectl("delete", "pod", "ordered-0", "--timeout=40s");
  const pods = await podsThat(client, (all) => all.some((pod) => pod.metadata.name === "ordered-0" && isReady(pod)));
  expect(pods.find(({ metadata }) => metadata.name === "ordered-0")?.metadata.uid).not.toBe(ordered?.metadata.uid);
  await second.kubectl("delete", "deployment,statefulset,job,pod", "--all", "--timeout=60s");
  const left = (): unknown[] => before.map((pod) => startTicks(pidOf(pod).split("\n")[0] ?? "")).filter(isThere);
  await expect.poll(left).toEqual([]);
});
