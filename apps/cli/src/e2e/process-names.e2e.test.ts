import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestKeelson } from "../testing/local-keelson.ts";
import { descendantsOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** The arguments of the processes of `keelson up` and of its Pods. Processes that have exited are left out. */
function commandLines(dataDir: string): readonly (readonly string[])[] {
  return [...descendantsOf(dataDir)].flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")];
    } catch {
      return [];
    }
  });
}

const pod = (name: string, runtimeClassName: string): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: {
    runtimeClassName,
    containers: [
      {
        name: "main",
        image: "none",
        command: ["/bin/sleep", "600"],
        tty: runtimeClassName === "process",
        volumeMounts: [{ name: "data", mountPath: "/data" }],
      },
    ],
    volumes: [{ name: "data", emptyDir: {} }],
  },
});

test("ps shows names and commands, never the scripts that start them", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path);
  const pool = {
    apiVersion: "sandbox.fast.io/v1alpha1",
    kind: "SandboxPool",
    metadata: { name: "pool" },
    spec: { capacity: { poolMin: 1, poolMax: 1, bufferMin: 1 } },
  };
  const sandbox = {
    apiVersion: "sandbox.fast.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "sleeper" },
    spec: { image: "host", poolRef: "pool", command: ["/bin/sleep"], args: ["600"] },
  };
  const manifest = join(folder.path, "objects.json");
  const items = [pod("plain", "process"), pod("isolated", "bubblewrap"), pool, sandbox];
  writeFileSync(manifest, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  await keelson.kubectl("apply", "-f", manifest);
  await keelson.kubectl("wait", "pod/plain", "pod/isolated", "--for=condition=Ready", "--timeout=45s");
  await keelson.kubectl("wait", "sandbox/sleeper", "--for=jsonpath={.status.phase}=Running", "--timeout=45s");

  const lines = commandLines(keelson.dataDir);
  expect(lines.filter((words) => words.some((word) => word.includes("\n")))).toEqual([]);
  const names = lines.map((words) => words.join(" ").trim());
  expect(names).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^keelson apiserver --data-dir/),
      expect.stringMatching(/^keelson controllers --data-dir/),
      expect.stringMatching(/keelson-program .* \/bin\/sleep 600$/),
      expect.stringMatching(/keelson-program .*agent-program\.js$/),
    ]),
  );
  await keelson.kubectl("delete", "sandbox,sandboxpool,pod", "--all", "--grace-period=1", "--timeout=45s");
});
