import { missingPeerStatus } from "../node-program.ts";

/** Imports a package. If it does not run on this version of Node.js, prints why and exits with {@link missingPeerStatus}. */
export async function importPeer(name: string): Promise<unknown> {
  try {
    return await import(name);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    process.stderr.write(`${name} cannot be imported on Node.js ${process.versions.node}: ${reason}\n`);
    process.exit(missingPeerStatus);
  }
}
