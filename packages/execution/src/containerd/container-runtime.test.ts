import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, test } from "vitest";
import { containerRuntime, findRunsc } from "./container-runtime.ts";
import { OptionsSchema } from "./generated/containerd/runc/options_pb.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "runtime it's "));
});
afterEach(() => rmSync(dir, { recursive: true }));

test("runs runc by default, and runsc through a script that gives it the network of the container", () => {
  expect(containerRuntime(undefined, dir)).toEqual({ name: "io.containerd.runc.v2" });
  expect(containerRuntime({ runtime: "runc" }, dir)).toEqual({ name: "io.containerd.runc.v2" });
  const runsc = join(dir, "runsc");
  writeFileSync(runsc, '#!/bin/sh\necho "$@"\n');
  chmodSync(runsc, 0o755);
  expect(findRunsc(`relative:${dir}`)).toBe(runsc);
  const { name, options } = containerRuntime({ runtime: "runsc" }, dir, runsc);
  expect([name, options?.typeUrl]).toEqual(["io.containerd.runc.v2", "containerd.runc.v1.Options"]);
  const { binaryName } = fromBinary(OptionsSchema, options?.value ?? new Uint8Array());
  expect(execFileSync(binaryName, ["create", "a b"], { encoding: "utf8" })).toBe("--network=host create a b\n");
});

test("rejects a program for runsc if it is not installed", () => {
  const missing = (): unknown => containerRuntime({ runtime: "runsc" }, dir, "");
  expect(missing).toThrow("isolation.runtime: runsc not found; install gVisor");
});

test("replaces the script of runsc as a whole, and only if it changes", () => {
  const script = join(dir, ".runsc");
  containerRuntime({ runtime: "runsc" }, dir, "/a/runsc");
  const { ino, mtimeNs } = statSync(script, { bigint: true });
  containerRuntime({ runtime: "runsc" }, dir, "/a/runsc");
  expect(statSync(script, { bigint: true })).toMatchObject({ ino, mtimeNs });
  const before = openSync(script, "r");
  containerRuntime({ runtime: "runsc" }, dir, "/b/runsc");
  expect(readFileSync(before, "utf8")).toContain("'/a/runsc'");
  closeSync(before);
  expect(readFileSync(script, "utf8")).toContain("'/b/runsc'");
  expect(readdirSync(dir)).toEqual([".runsc"]);
});
