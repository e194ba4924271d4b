import { createHash } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";

/** Addresses that a data folder's Pods and Services have to themselves on this machine. */
export interface AddressBlock {
  /** The first two parts of Pods' addresses: `127.64` to `127.127`. */
  readonly podNetwork: string;
  /** Of Services' addresses: `127.128` to `127.191`. */
  readonly serviceNetwork: string;
  /** It was another one before, which is in use by now. */
  readonly hasMoved: boolean;
  /** Writes it down, so that the folder has the same next time. To be called when the folder is known to be nobody else's. */
  record(): Promise<void>;
  /** Gives it up. */
  release(): Promise<void>;
}

/** Takes an address for as long as this process runs; `undefined`: somebody else has it. Resolves to what gives it up. */
export type Reserve = (address: string) => Promise<(() => Promise<void>) | undefined>;

const blocks = 64;
/** Nobody listens there, on an address that no Pod gets: who can, has the block. */
const port = 6442;

/**
 * Takes a block of addresses for a data folder: the one that is written down in it, else one that follows from its path, so that Pods that
 * outlive Keelson keep their addresses to themselves; where another has it, the next one that is free. Throws where none is free.
 */
export async function takeAddressBlock(dataDir: string, reserve: Reserve = listenOn): Promise<AddressBlock> {
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
  throw new Error(
    `${dataDir}: all ${blocks} blocks of loopback addresses for Pods are in use by other data folders on this machine`,
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
      // A machine that has no such addresses has nothing to share either.
      resolve(isTaken ? undefined : () => Promise.resolve());
    });
    server.listen({ host, port, exclusive: true }, () => {
      server.unref();
      resolve(() => new Promise((closed) => void server.close(() => closed())));
    });
  });
}
