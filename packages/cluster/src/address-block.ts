import { createHash } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { listeningAddresses } from "./listening-addresses.ts";

/**
 * Where Pods have their addresses: on the machine's loopback interface, or in network namespaces. A data directory keeps the kind that it
 * was created with, because Services keep their addresses.
 */
export type PodNetworkKind = "loopback" | "namespaces";

/** The addresses that belong to the Pods and Services of one data directory. Test clusters reserve theirs in the same way. */
export interface AddressBlock {
  /** First two octets of Pod addresses, `127.64` to `127.127`, or `10.64` to `10.127` in namespaces. */
  readonly podNetwork: string;
  /** First two octets of Service addresses, `127.128` to `127.191`, or `10.128` to `10.191` with namespaces. */
  readonly serviceNetwork: string;
  /** Whether the recorded block was in use, so that another one was chosen. */
  readonly hasMoved: boolean;
  /** Records the block in the data directory for the next start. Call it only while holding the data directory's lock. */
  record(): Promise<void>;
  /** Releases the block. */
  release(): Promise<void>;
}

/** Reserves an address until the returned function is called. Resolves to `undefined` if another process holds it. */
export type Reserve = (address: string) => Promise<(() => Promise<void>) | undefined>;

/** `NoAddressBlock`: none is free. `OtherNetwork`: the data directory has the other kind of network. */
class AddressBlockError extends Error {
  override readonly name = "AddressBlockError";
  readonly code: "NoAddressBlock" | "OtherNetwork";

  constructor(code: AddressBlockError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

const blocks = 64;
/** Listening on this port of an address outside the Pod range reserves a block. */
const reservationPort = 6442;

/**
 * Reserves a block of addresses for a data directory: the recorded one, otherwise one derived from the directory's path, otherwise the next
 * free one. A stable choice lets Pods that outlive Keelson keep their addresses. On loopback, a new choice skips a block on which a program
 * listens, such as a Pod whose Keelson was killed; in the recorded block, it is a Pod of this directory.
 *
 * **Errors**: `AddressBlockError` if every block is in use, or if the directory has the other kind of network.
 */
export async function reserveAddressBlock(
  dataDir: string,
  reserve: Reserve = listenOn,
  kind: PodNetworkKind = "loopback",
  listeners: () => Promise<readonly string[]> = listeningAddresses,
): Promise<AddressBlock> {
  const file = join(dataDir, "addresses.json");
  const { block: recorded, network = "loopback" } = await readRecord(file);
  if (recorded !== undefined && network !== kind) {
    throw new AddressBlockError(
      "OtherNetwork",
      `--pod-network: ${dataDir} was created with ${network}, and its Services keep their addresses: use ${network}, or another --data-dir`,
    );
  }
  const firstOctet = kind === "loopback" ? 127 : 10;
  const first = recorded ?? createHash("sha256").update(dataDir).digest().readUInt32BE(0) % blocks;
  const occupied = kind === "loopback" ? occupiedBlocks(await listeners()) : new Set<number>();
  for (let tries = 0; tries < blocks; tries++) {
    const block = (first + tries) % blocks;
    if (occupied.has(block) && block !== recorded) continue;
    const release = await reserve(`127.${64 + block}.255.254`);
    if (release === undefined) continue;
    return {
      podNetwork: `${firstOctet}.${64 + block}`,
      serviceNetwork: `${firstOctet}.${128 + block}`,
      hasMoved: recorded !== undefined && block !== recorded,
      async record() {
        if (block === recorded) return;
        await writeFile(`${file}.new`, `${JSON.stringify({ block, ...(kind !== "loopback" && { network: kind }) })}\n`, {
          mode: 0o600,
        });
        await rename(`${file}.new`, file);
      },
      release,
    };
  }
  throw new AddressBlockError(
    "NoAddressBlock",
    `${dataDir}: all ${blocks} blocks of loopback addresses are in use by other data directories or programs: stop one of them`,
  );
}

/** The blocks whose Pod or Service addresses are among these. */
function occupiedBlocks(addresses: readonly string[]): ReadonlySet<number> {
  const octets = addresses.map((address) => address.split(".").map(Number));
  return new Set(
    octets.flatMap(([first, second = 0]) => (first === 127 && second >= 64 && second < 192 ? (second - 64) % blocks : [])),
  );
}

async function readRecord(file: string): Promise<{ readonly block?: number; readonly network?: PodNetworkKind }> {
  try {
    const { block, network } = JSON.parse(await readFile(file, "utf8")) as {
      readonly block?: unknown;
      readonly network?: unknown;
    };
    if (!(typeof block === "number" && Number.isInteger(block) && block >= 0 && block < blocks)) return {};
    return { block, ...(network === "namespaces" && { network }) };
  } catch {
    return {};
  }
}

function listenOn(host: string): ReturnType<Reserve> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", (error) => {
      const isTaken = "code" in error && error.code === "EADDRINUSE";
      // Without such addresses there is nothing to share, and nothing to reserve.
      resolve(isTaken ? undefined : () => Promise.resolve());
    });
    server.listen({ host, port: reservationPort, exclusive: true }, () => {
      server.unref();
      resolve(() => new Promise((closed) => void server.close(() => closed())));
    });
  });
}
