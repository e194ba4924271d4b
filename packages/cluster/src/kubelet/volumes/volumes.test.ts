import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { PodView } from "../pod/pod-view.ts";
import { type ClaimFolder, prepareVolumes, type VolumeSources } from "./volumes.ts";

async function prepareClaim(claimed: (folder: string) => ClaimFolder) {
  const folder = await mkdtemp(join(tmpdir(), "keelson-volumes-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const pod = {
    metadata: { namespace: "n", name: "p" },
    spec: { containers: [], volumes: [{ name: "data", persistentVolumeClaim: { claimName: "c" } }] },
  } as unknown as PodView;
  const sources = { claimFolder: () => Promise.resolve(claimed(folder)) } as unknown as VolumeSources;
  return { folder, prepare: () => prepareVolumes(pod, join(folder, "volumes"), sources) };
}

test("a local volume whose disk is not mounted fails instead of starting empty", async () => {
  const { folder, prepare } = await prepareClaim((path) => ({ path: join(path, "disk"), mustExist: true }));
  await expect(prepare()).rejects.toThrow(/volume "data" : path ".*\/disk" does not exist/);
  await expect(stat(join(folder, "disk"))).rejects.toThrow("ENOENT");
  await mkdir(join(folder, "disk"));
  expect((await prepare()).get("data")).toBe(join(folder, "disk"));
});

test("the directory of a host path volume is created", async () => {
  const { folder, prepare } = await prepareClaim((path) => ({ path: join(path, "disk") }));
  await prepare();
  expect((await stat(join(folder, "disk"))).isDirectory()).toBe(true);
});
