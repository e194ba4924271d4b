import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import { writeFileAtomic } from "@keelson/execution/files";
import { firewallTable, type NetworkAddresses, tableOf } from "./firewall-rules.ts";
import type { NetworkPolicy } from "./network-policy.ts";

/*
 * The network of one sandbox, as root:
 *
 *     sandbox's network namespace            host (the agent's network namespace)
 *     eth0 198.18.x.y+2/30  ---- veth ----   ks<index> 198.18.x.y+1/30 -- forward chain, masquerade --> uplink
 *                                            resolver on 198.18.x.y+1:53
 *
 * The namespace has a name below /run/netns and belongs to the host's user namespace, so the sandbox can change nothing in it. The index of
 * the pair is claimed by creating the link: agents of one machine do not coordinate.
 */

/** What is needed to undo a network, and to serve it after a restart of the agent. */
export interface SandboxNetwork extends NetworkAddresses {
  /** Name of the network namespace. */
  readonly namespace: string;
  readonly policy: NetworkPolicy;
}

/** Number of /30 networks in 198.18.0.0/15, the range for tests of network devices (RFC 2544). */
const networkCount = 32_768;
const maxLinkAttempts = 256;
const rangeStart = (198 << 24) | (18 << 16);

/** Runs a program with an optional input. Rejects with its standard error. */
export function run(program: string, args: readonly string[], input = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, { maxBuffer: 4 << 20 }, (error, stdout, stderr) =>
      error === null ? resolve(stdout) : reject(new Error(`${program} ${args.join(" ")}: ${stderr.trim() || error.message}`)),
    );
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

/** Why this machine cannot give sandboxes a network; undefined if it can. */
export function networkSupportProblem(
  path: string = process.env.PATH ?? "",
  uid = process.getuid?.() ?? 0,
): string | undefined {
  if (uid !== 0) return "requires an agent that runs as root";
  const isInstalled = (name: string): boolean =>
    [...path.split(delimiter), "/usr/sbin", "/sbin"].some((folder) => {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
  const missing = ["ip", "nft"].filter((name) => !isInstalled(name));
  return missing.length === 0 ? undefined : `requires ${missing.join(" and ")} (apt-get install iproute2 nftables)`;
}

const textOf = (address: number): string => [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff).join(".");

/** Path of a network namespace. */
export const namespacePath = ({ namespace }: Pick<SandboxNetwork, "namespace">): string => `/run/netns/${namespace}`;

const stateFile = (folder: string): string => join(folder, "network.json");

/** File that a sandbox has as `/etc/resolv.conf`. */
export const resolverFile = (folder: string): string => join(folder, "resolv.conf");

/** Reads the network of a directory; undefined if it was never completed. A damaged file counts as missing and is logged. */
export async function readNetwork(folder: string, log: Logger): Promise<SandboxNetwork | undefined> {
  const file = stateFile(folder);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const network = parseNetwork(text);
  if (network === undefined) log.warn({ file }, "the record of a sandbox's network is damaged; removing the network");
  return network;
}

function parseNetwork(text: string): SandboxNetwork | undefined {
  const value = parseJsonObject(text);
  if (value === undefined || !isJsonObject(value.policy) || !Array.isArray(value.policy.allow)) return undefined;
  const names = [value.namespace, value.link, value.gateway, value.address, value.policy.mode];
  // Written by this program, so names of these types are complete.
  return names.every((name) => typeof name === "string") ? (value as unknown as SandboxNetwork) : undefined;
}

/** Creates the network of a sandbox; its files are in `folder`. A failure leaves nothing behind. */
export async function createNetwork(id: string, folder: string, policy: NetworkPolicy): Promise<SandboxNetwork> {
  const namespace = `keelson-${id}`;
  await mkdir(folder, { recursive: true, mode: 0o755 });
  await run("ip", ["netns", "add", namespace]);
  let network: SandboxNetwork | undefined;
  try {
    network = { ...(await createLink(id, namespace)), namespace, policy };
    const { link, gateway } = network;
    // The firewall comes before the link is up.
    await run("nft", ["-f", "-"], firewallTable(network, policy));
    await run(
      "ip",
      ["-batch", "-"],
      `link set ${link} alias ${namespace}\naddr add ${gateway}/30 dev ${link}\nlink set ${link} up\n`,
    );
    await run("ip", ["-netns", namespace, "-batch", "-"], insideCommands(network));
    enableForwarding();
    await writeFile(resolverFile(folder), `nameserver ${gateway}\n`, { mode: 0o644 });
    await writeFileAtomic(stateFile(folder), JSON.stringify(network), { durable: false });
    return network;
  } catch (error) {
    await removeNetwork(folder, network ?? { namespace });
    throw error;
  }
}

/** ip(8) commands that configure the sandbox's end. */
const insideCommands = ({ gateway, address }: NetworkAddresses): string =>
  `link set lo up\naddr add ${address}/30 dev eth0\nlink set eth0 up\nroute add default via ${gateway}\n`;

/**
 * Moves the sandbox's end into the network namespace of a process. A container needs one that its user namespace owns, or the OCI runtime
 * could not run commands alongside its program.
 */
export async function moveNetwork(network: SandboxNetwork, pid: number): Promise<void> {
  await run("ip", ["-netns", network.namespace, "link", "set", "eth0", "netns", String(pid)]);
  await run("nsenter", [`--net=/proc/${pid}/ns/net`, "--", "ip", "-batch", "-"], insideCommands(network));
}

/** Creates the veth pair at the first free index. */
async function createLink(id: string, namespace: string): Promise<NetworkAddresses> {
  const start = createHash("sha256").update(id).digest().readUInt32BE(0);
  for (let attempt = 0; attempt < maxLinkAttempts; attempt += 1) {
    const index = (start + attempt) % networkCount;
    const link = `ks${index}`;
    try {
      await run("ip", ["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace]);
    } catch (error) {
      if (error instanceof Error && error.message.includes("File exists")) continue;
      throw error;
    }
    const first = (rangeStart + index * 4) >>> 0;
    return { link, gateway: textOf(first + 1), address: textOf(first + 2) };
  }
  throw new Error(`could not create a network: ${maxLinkAttempts} addresses in a row are in use`);
}

/** Packets of sandboxes are forwarded to the uplink. */
function enableForwarding(): void {
  const path = "/proc/sys/net/ipv4/ip_forward";
  if (readFileSync(path, "latin1").trim() !== "1") writeFileSync(path, "1");
}

/** The host's end of the link of a network whose record is lost. Its alias is the namespace's name. */
async function findLink(namespace: string): Promise<string | undefined> {
  const text = await run("ip", ["-json", "link", "show"]).catch(() => "[]");
  const links: unknown = JSON.parse(text);
  const found = Array.isArray(links) ? links.filter(isJsonObject).find(({ ifalias }) => ifalias === namespace) : undefined;
  return typeof found?.ifname === "string" ? found.ifname : undefined;
}

/** Removes the network of a sandbox and its files. Missing parts are ignored. */
export async function removeNetwork(
  folder: string,
  network: Pick<SandboxNetwork, "namespace"> & Partial<NetworkAddresses>,
): Promise<void> {
  const { namespace } = network;
  const link = network.link ?? (existsSync(folder) ? await findLink(namespace) : undefined);
  if (link !== undefined) {
    // Deletes both ends, even while the namespace is in use.
    await run("ip", ["link", "delete", link]).catch(() => {});
    await run("nft", ["delete", "table", "inet", tableOf({ link })]).catch(() => {});
  }
  await run("ip", ["netns", "delete", namespace]).catch(() => {});
  // Its file remains if another mount namespace has the mount, such as that of an agent that was killed.
  await rm(namespacePath({ namespace }), { force: true }).catch(() => {});
  await rm(folder, { recursive: true, force: true });
}
