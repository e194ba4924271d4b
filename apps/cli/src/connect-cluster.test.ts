import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { connectCluster } from "./connect-cluster.ts";

afterEach(() => void vi.unstubAllEnvs());

test("a missing kubeconfig names the command that sets the one of keelson up", async () => {
  const dir = mkdtempSync(join(tmpdir(), "keelson-connect-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const [name, value] of [
    ["HOME", dir],
    ["KUBECONFIG", ""],
    ["KUBERNETES_SERVICE_HOST", ""],
    ["KEELSON_DATA_DIR", dir],
  ] as const)
    vi.stubEnv(name, value);
  const hint = /; for keelson up: eval "\$\(keelson kubeconfig --export\)"$/;
  await expect(connectCluster({})).rejects.not.toThrow(hint);
  writeFileSync(join(dir, "kubeconfig"), "");
  await expect(connectCluster({})).rejects.toThrow(hint);
  await expect(connectCluster({ kubeconfig: join(dir, "other") })).rejects.not.toThrow(hint);
});
