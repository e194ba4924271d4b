/* Imports a package and prints how long that took, in ms. Argument: PACKAGE. */
import { importPeer } from "./import-peer.ts";

const startedAt = performance.now();
await importPeer(process.argv[2] ?? "");
console.log(JSON.stringify({ ms: performance.now() - startedAt }));
