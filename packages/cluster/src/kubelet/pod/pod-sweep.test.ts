import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sweepDeletedPods } from "./pod-sweep.ts";

let podsDir: string;
beforeEach(() => {
  podsDir = mkdtempSync(join(tmpdir(), "pod-sweep-"));
});
afterEach(() => rmSync(podsDir, { recursive: true }));

test("a removal that fails does not stop the clean-up of other deleted Pods", async () => {
  for (const uid of ["a", "b", "kept"]) mkdirSync(join(podsDir, uid));
  const removed: string[] = [];
  const program = (podUid: string, stop: () => Promise<void>) => ({
    id: podUid,
    spec: { metadata: { podUid } },
    stop,
    remove: async () => void removed.push(podUid),
  });
  const fail = () => Promise.reject(new Error("busy"));
  const pass = () => Promise.resolve();
  const programs = () => [program("a", fail), program("b", pass), program("kept", pass)];
  const node = {
    podsDir,
    log: silentLogger,
    runtimes: { programs },
    subPaths: { releaseOthers: fail },
    network: { detachOthers: fail },
  };
  const released: string[] = [];
  await sweepDeletedPods(
    node,
    (uid) => uid === "kept",
    (uid) => released.push(uid),
  );
  expect(removed).toEqual(["b"]);
  expect(released.sort()).toEqual(["a", "b"]);
  expect(["a", "b", "kept"].filter((uid) => existsSync(join(podsDir, uid)))).toEqual(["kept"]);
});
