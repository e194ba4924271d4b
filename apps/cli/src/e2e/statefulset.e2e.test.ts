import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;

/** Runs kubectl with the arguments of a line; additional arguments may contain spaces. */
const kubectl = (line: string, ...more: string[]): Promise<string> => keelson.kubectl(...line.split(" "), ...more);

const manifest = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: tcp, port: 5000}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: none
          command:
            - /bin/sh
            - -c
            - |
              echo "start $HOSTNAME version $VERSION" | tee -a /data/starts
              echo $$$$ > /data/pid
              [ ! -e /data/fail ] || { rm /data/fail; echo failing; exit 3; }
              while :; do sleep 0.2; done
          env: [{name: VERSION, value: "1"}]
          volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** Follows a log until it matches. Resolves to the whole log. */
function followed(wanted: string, ...args: string[]): Promise<string> {
  const child = spawn("kubectl", ["--kubeconfig", keelson.kubeconfig, "logs", "-f", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
    if (text.includes(wanted)) child.kill();
  });
  return new Promise((resolve) => child.once("close", () => resolve(text)));
}

test("supports a kubectl session on a StatefulSet with volumes", { timeout: 240_000 }, async () => {
  const file = join(folder.path, "db.yaml");
  writeFileSync(file, manifest);

  // Pods are created in order, each with its own claim.
  expect(await kubectl("create -f", file)).toBe("service/db created\nstatefulset.apps/db created\n");
  expect(await kubectl("rollout status statefulset/db --timeout=40s")).toContain(
    "partitioned roll out complete: 2 new pods have been updated",
  );
  const wide = await kubectl("get pods -o wide -l app=db");
  expect(wide.split("\n")[0]).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES$/);
  expect(wide).toMatch(/^db-0 +1\/1 +Running +0 +\S+ +127\.\d+\.\d+\.\d+ /m);
  expect(wide).toMatch(/^db-1 +1\/1 +Running +0 +\S+ +127\.\d+\.\d+\.\d+ /m);
  expect(await kubectl("get statefulset db -o wide")).toMatch(/^db +2\/2 +\S+ +main +none$/m);
  expect(await kubectl("get pvc")).toMatch(/^data-db-0 +Bound +pvc-\S+ +1Mi +RWO +standard +/m);
  expect(await kubectl("get pv --no-headers")).toMatch(/^pvc-\S+ +1Mi +RWO +Delete +Bound +default\/data-db-/m);
  const described = await kubectl("describe pod db-0");
  expect(described).toMatch(/Controlled By: +StatefulSet\/db/);
  expect(described).toMatch(/\/data from data \(rw\)/);
  expect(described).toMatch(/Normal +Scheduled .*Successfully assigned default\/db-0/);
  expect(described).toMatch(/Normal +Started .*Started container main/);
  expect(await kubectl("describe statefulset db")).toMatch(
    /Normal +SuccessfulCreate .*statefulset-controller +create Pod db-1 in StatefulSet db successful/,
  );
  expect(await kubectl("get endpointslices -l kubernetes.io/service-name=db --no-headers")).toMatch(/IPv4 +5000 +127\.\d+\./);

  // Read and write a volume through exec and cp.
  expect(await kubectl("exec db-0 -- sh -c", "cat /data/starts")).toBe("start db-0 version 1\n");
  writeFileSync(join(folder.path, "note"), "kept\n");
  await kubectl(`cp ${folder.path}/note db-0:/data/note`);
  expect(await kubectl("exec db-0 -- cat /data/note")).toBe("kept\n");
  await kubectl(`cp db-0:/data/starts ${folder.path}/starts`);
  expect(readFileSync(join(folder.path, "starts"), "utf8")).toBe("start db-0 version 1\n");
  await expect(kubectl("exec db-1 -- cat /data/note")).rejects.toThrow(/No such file[\s\S]*exit code 1/);

  // A deleted Pod is recreated under its name with its volume.
  const uid = await kubectl("get pod db-0 -o jsonpath={.metadata.uid}");
  expect(await kubectl("delete pod db-0 --timeout=40s")).toBe('pod "db-0" deleted\n');
  await kubectl("rollout status statefulset/db --timeout=40s");
  expect(await kubectl("get pod db-0 -o jsonpath={.metadata.uid}")).not.toBe(uid);
  expect(await kubectl("exec db-0 -- cat /data/note /data/starts")).toBe("kept\nstart db-0 version 1\nstart db-0 version 1\n");

  // A crashed container restarts, and its previous log is kept.
  await kubectl("exec db-1 -- sh -c", "touch /data/fail; kill -9 $(cat /data/pid)");
  await kubectl("wait pod/db-1 --for=jsonpath={.status.containerStatuses[0].restartCount}=2 --timeout=60s");
  expect(await kubectl("logs db-1 --previous")).toBe("start db-1 version 1\nfailing\n");
  expect(await followed("start db-1", "db-1")).toBe("start db-1 version 1\n");
  expect(await kubectl("logs db-0 --since=1h --tail=1")).toBe("start db-0 version 1\n");
  expect(await kubectl("logs db-0 --since-time=2200-01-01T00:00:00Z")).toBe("");
  expect(await kubectl("logs -l app=db --prefix")).toContain("[pod/db-1/main] start db-1 version 1");
  await kubectl("wait pod/db-1 --for=condition=Ready --timeout=60s");

  // Scaling keeps the claims.
  expect(await kubectl("scale statefulset db --replicas=3")).toBe("statefulset.apps/db scaled\n");
  await kubectl("wait pod/db-2 --for=create --timeout=40s");
  await kubectl("wait pod/db-2 --for=condition=Ready --timeout=40s");
  expect(await kubectl("scale statefulset db --replicas=2")).toBe("statefulset.apps/db scaled\n");
  await kubectl("wait pod/db-2 --for=delete --timeout=40s");
  expect(await kubectl("get pvc -o name")).toBe(
    [0, 1, 2].map((ordinal) => `persistentvolumeclaim/data-db-${ordinal}\n`).join(""),
  );

  // A rolling update in reverse order, a restart, and a rollback.
  expect(await kubectl("set env statefulset/db VERSION=2")).toContain("env updated");
  await kubectl("rollout status statefulset/db --timeout=60s");
  expect(await kubectl("logs db-0")).toBe("start db-0 version 2\n");
  expect(await kubectl("rollout restart statefulset/db")).toBe("statefulset.apps/db restarted\n");
  await kubectl("rollout status statefulset/db --timeout=60s");
  expect(await kubectl("rollout history statefulset/db")).toMatch(/^1 .*\n2 .*\n3 /m);
  expect(await kubectl("rollout undo statefulset/db --to-revision=1")).toBe("statefulset.apps/db rolled back\n");
  await kubectl("rollout status statefulset/db --timeout=60s");
  expect(await kubectl("logs db-1")).toBe("start db-1 version 1\n");

  // A claim can grow while in use and cannot shrink.
  const size = (text: string): string => JSON.stringify({ spec: { resources: { requests: { storage: text } } } });
  expect(await kubectl("patch pvc data-db-0 -p", size("3Mi"))).toContain("patched");
  await kubectl("wait pvc/data-db-0 --for=jsonpath={.status.capacity.storage}=3Mi --timeout=30s");
  expect(await kubectl("exec db-0 -- cat /data/note")).toBe("kept\n");
  await expect(kubectl("patch pvc data-db-0 -p", size("2Mi"))).rejects.toThrow(
    /spec\.resources\.requests\.storage: Forbidden: field can not be less than/,
  );
  expect(await kubectl("top pods")).toMatch(/^NAME\s+CPU\(cores\)\s+MEMORY\(bytes\)/);

  // Dependents are deleted with it; claims keep their data until they are deleted.
  expect(await kubectl("delete statefulset db --cascade=foreground --timeout=60s")).toContain('"db" deleted');
  expect(await kubectl("get pods -l app=db -o name")).toBe("");
  expect(await kubectl("delete pvc --all --timeout=40s")).toContain('persistentvolumeclaim "data-db-2" deleted');
  await kubectl("wait pv --all --for=delete --timeout=40s");
  expect(await kubectl("get pv -o name")).toBe("");
});
