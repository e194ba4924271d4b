import { createHash } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";

/** The loopback addresses that belong to the Pods and Services of one data folder. Test clusters reserve theirs in the same way. */
export interface AddressBlock {
  /** First two octets of Pod addresses, `127.64` to `127.127`. */
  readonly podNetwork: string;
  /** First two octets of Service addresses, `127.128` to `127.191`. */
  readonly serviceNetwork: string;
  /** Whether the recorded block was in use, so that another one was chosen. */
  readonly hasMoved: boolean;
  /** Records the block in the data folder for the next start. Call it only while holding the data folder's lock. */
  record(): Promise<void>;
  /** Releases the block. */
  release(): Promise<void>;
}

/** Reserves an address until the returned function is called. Resolves to `undefined` if another process holds it. */
export type Reserve = (address: string) => Promise<(() => Promise<void>) | undefined>;

/** No block of addresses is free. */
class AddressBlockError extends Error {
  override readonly name = "AddressBlockError";
  readonly code = "NoAddressBlock";
}

const blocks = 64;
/** Listening on this port of an address outside the Pod range reserves a block. */
const reservationPort = 6442;

/**
 * Reserves a block of addresses for a data folder: the recorded one, otherwise one derived from the folder's path, otherwise the next
 * free one. A stable choice lets Pods that outlive Keelson keep their addresses.
 *
 * **Errors**: `AddressBlockError` if every block is in use.
 */
export async function reserveAddressBlock(dataDir: string, reserve: Reserve = listenOn): Promise<AddressBlock> {
  const file = join(dataDir, "addresses.json");
  const recorded = await readBlock(file);
  const first = recorded ?? createHash("sha256").update(dataDir).digest().readUInt32BE(0) % blocks;
  for (let tries = 0; tries < blocks; tries++) {
    const block = (first + tries) % blocks;
    const podNetwork = `127.${64 + block}`;
    const release = await reserve(`${podNetwork}.255.254`);
    if (release === undefined) continue;
    return {
      podNetwork,
      serviceNetwork: `127.${128 + block}`,
      hasMoved: recorded !== undefined && block !== recorded,
      async record() {
        if (block === recorded) return;
        await writeFile(`${file}.new`, `${JSON.stringify({ block })}\n`, { mode: 0o600 });
        await rename(`${file}.new`, file);
      },
      release,
    };
  }
  throw new AddressBlockError(
    `${dataDir}: all ${blocks} blocks of loopback addresses are in use by other data folders: stop one of them`,
  );
}

async function readBlock(file: string): Promise<number | undefined> {
  try {
    const { block } = JSON.parse(await readFile(file, "utf8")) as { readonly block?: unknown };
    return typeof block === "number" && Number.isInteger(block) && block >= 0 && block < blocks ? block : undefined;
  } catch {
    return undefined;
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
