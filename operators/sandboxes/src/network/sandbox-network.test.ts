import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readNetwork, type SandboxNetwork } from "./sandbox-network.ts";
import { SandboxNetworks } from "./sandbox-networks.ts";

const id = "0".repeat(32);
const network: SandboxNetwork = {
  namespace: `keelson-${id}`,
  link: "ks1",
  gateway: "198.18.0.5",
  address: "198.18.0.6",
  policy: { mode: "internet", allow: [] },
};
let dir: string;
let folder: string;
let logged: string[];
let log: Logger;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "sandbox-network-"));
  folder = join(dir, id);
  mkdirSync(folder);
  logged = [];
  log = { ...silentLogger, warn: (_, message) => logged.push(message), child: () => log };
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("is read back as it was written", async () => {
  writeFileSync(join(folder, "network.json"), JSON.stringify(network));
  expect(await readNetwork(folder, log)).toEqual(network);
  expect(logged).toEqual([]);
});

it.each([
  ["empty", ""],
  ["cut off", JSON.stringify(network).slice(0, -20)],
  ["of another format", JSON.stringify({ namespace: "keelson" })],
  ["without a policy", JSON.stringify({ ...network, policy: null })],
])("is absent if its record is %s, and says so", async (_, text) => {
  writeFileSync(join(folder, "network.json"), text);
  expect(await readNetwork(folder, log)).toBeUndefined();
  expect(logged).toEqual([expect.stringMatching(/damaged/)]);
});

it("with a damaged record does not keep an agent from starting", async () => {
  writeFileSync(join(folder, "network.json"), '{"namespace":');
  const networks = new SandboxNetworks({ dir, clock: createVirtualClock(), log });
  await networks.adopt(new Set([id]));
  expect(await readNetwork(folder, log)).toBeUndefined();
  expect(logged).toHaveLength(1);
  await networks.close();
});
