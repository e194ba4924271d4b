import { execFile, execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { createBusyboxImage } from "@keelson/execution/testing";
import { expect, test } from "vitest";
import { startKeelson, upArguments } from "../testing/keelson-process.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const unprivileged = 65_534;

/** Whether this process may switch to the unprivileged user, and that user may read the program. */
function canDropPrivileges(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    execFileSync("test", ["-r", fileURLToPath(new URL("../../bin/keelson.js", import.meta.url))], {
      uid: unprivileged,
      gid: unprivileged,
    });
    return true;
  } catch {
    return false;
  }
}

const container = (command: string, more = ""): string =>
  `{terminationGracePeriodSeconds: 1, containers: [{name: main, image: none, command: [/bin/sh, -c, "${command}"]${more}}]`;
const pods = `
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: ${container("id -u; sleep 1000")}}
---
apiVersion: v1
kind: Pod
metadata: {name: volume}
spec: ${container("sleep 1000", ", volumeMounts: [{name: e, mountPath: /e}]")}, volumes: [{name: e, emptyDir: {}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec: ${container("sleep 1000")}, securityContext: {runAsUser: 1000}}
`;

test.runIf(canDropPrivileges())("runs Pods without root, and reports unsupported features with the remedy", async () => {
  using folder = temporaryFolder();
  chmodSync(folder.path, 0o777);
  const env = { HOME: folder.path };
  await using keelson = startKeelson(upArguments(folder.path, "--only", "cluster"), {
    user: unprivileged,
    cwd: folder.path,
    env,
  });
  await keelson.printed(/^ready$/m);
  expect(keelson.output()).toMatch(/^node .*not running as root: no volumes in Pods, no runAsUser/m);
  const kubeconfig = join(folder.path, "keelson", "kubeconfig");
  const kubectl = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)("kubectl", ["--kubeconfig", kubeconfig, ...args])).stdout;
  const file = join(folder.path, "pods.yaml");
  writeFileSync(file, pods);
  await kubectl("apply", "-f", file);
  await kubectl("wait", "pod/plain", "--for=condition=Ready", "--timeout=40s");
  expect(await kubectl("exec", "plain", "--", "id", "-u")).toBe(`${unprivileged}\n`);
  await expect.poll(() => kubectl("logs", "plain")).toBe(`${unprivileged}\n`);
  const message = (pod: string): Promise<string> =>
    kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].state.waiting.message}");
  await expect.poll(() => message("volume")).toContain("run it as root");
  await expect.poll(() => message("other")).toMatch(/runAsUser is 1000.*runs as user 65534/);
  await kubectl("delete", "pod", "--all", "--timeout=40s");
});

test.runIf(canDropPrivileges())("runs an imported image in bubblewrap without root", async () => {
  using folder = temporaryFolder();
  chmodSync(folder.path, 0o777);
  const as = { user: unprivileged, cwd: folder.path, env: { HOME: folder.path } };
  const archive = join(folder.path, "busybox.tar");
  await createBusyboxImage(archive, {
    User: "worker",
    Cmd: ["/bin/sh", "-c", "id -u; cat /etc/motd; touch /x || exec sleep 1000"],
  });
  await using keelson = startKeelson(upArguments(folder.path, "--only", "cluster"), as);
  await keelson.printed(/^ready$/m);
  const dataDir = join(folder.path, "keelson");
  const importing = startKeelson(
    ["image", "import", archive, "example.org/worker:1", "--data-dir", dataDir, "--containerd-address", "none"],
    as,
  );
  expect(await importing.exited, importing.output()).toBe(0);
  const kubectl = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)("kubectl", ["--kubeconfig", join(dataDir, "kubeconfig"), ...args])).stdout;
  const overrides = { spec: { runtimeClassName: "bubblewrap", terminationGracePeriodSeconds: 1 } };
  await kubectl("run", "worker", "--image=example.org/worker:1", `--overrides=${JSON.stringify(overrides)}`);
  await kubectl("wait", "pod/worker", "--for=condition=Ready", "--timeout=40s");
  await expect.poll(() => kubectl("logs", "worker"), { timeout: 20_000 }).toMatch(/^1234\nabove\n.*Read-only file system/);
  await kubectl("delete", "pod", "--all", "--timeout=40s");
});
