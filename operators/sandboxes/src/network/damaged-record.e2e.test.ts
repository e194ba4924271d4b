import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";

const isRoot = process.getuid?.() === 0;
const dir = mkdtempSync(join(tmpdir(), "damaged-record-"));

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const built = (path: string): string => JSON.stringify(new URL(`../../dist/network/${path}`, import.meta.url).href);

/** Runs in network and mount namespaces of its own, so that nothing changes on the host. */
const scenario = `
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { createNetwork } from ${built("sandbox-network.js")};
import { SandboxNetworks } from ${built("sandbox-networks.js")};
const [dir] = process.argv.slice(1);
const id = "0".repeat(32);
const list = (program, ...args) => execFileSync(program, args, { encoding: "utf8" });
const state = () => list("nft", "list", "tables") + list("ip", "-oneline", "link", "show", "type", "veth") + list("ip", "netns");
await createNetwork(id, dir + "/" + id, { mode: "internet", allow: [] });
const before = state();
writeFileSync(dir + "/" + id + "/network.json", '{"namespace":');
const networks = new SandboxNetworks({ dir, clock: systemClock, log: silentLogger });
await networks.adopt(new Set());
await networks.close();
process.stdout.write(JSON.stringify({ before, after: state() }));
`;

it.runIf(isRoot)("removes the link, firewall and namespace of a network whose record is damaged", () => {
  const setup = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$@"';
  const program = [process.execPath, "--input-type=module", "-e", scenario, dir];
  const output = execFileSync("unshare", ["--net", "--mount", "sh", "-c", setup, "sh", ...program], {
    cwd: import.meta.dirname,
    timeout: 240_000,
    encoding: "utf8",
  });
  const { before, after } = JSON.parse(output) as { readonly before: string; readonly after: string };
  expect(before).toMatch(/table inet keelson_ks\d+[\s\S]* ks\d+@[\s\S]*keelson-0{32}/);
  expect(after).toBe("");
});
