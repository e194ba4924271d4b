import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type AccessFilter, reviewedAccess } from "@keelson/controller/probes";

/** The file in the data directory with the bearer token for `/metrics` and `/debug/reconciles`. */
/** Name of the file with the token, in the data directory. */
export const metricsTokenFile = "metrics-token";

/**
 * Allows reading metrics with the token in the data directory, or with an API token whose user may get the path (`nonResourceURLs`). Pods
 * share the machine's loopback addresses, so an address alone proves nothing.
 */
export async function metricsAccess(options: {
  readonly dataDir: string;
  readonly client: Client;
  readonly clock: Clock;
}): Promise<AccessFilter> {
  const { dataDir, client, clock } = options;
  const own = digestOf(await ensureToken(join(dataDir, metricsTokenFile)));
  const reviewed = reviewedAccess({ client, clock });
  // Digests have equal lengths, and comparing them takes the same time for every token.
  const isOwn = (token: string | undefined): boolean => token !== undefined && timingSafeEqual(digestOf(token), own);
  return (request) => (isOwn(request.token) ? Promise.resolve("allowed") : reviewed(request));
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

async function ensureToken(path: string): Promise<string> {
  try {
    const token = (await readFile(path, "utf8")).trim();
    if (token !== "") return token;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
  const token = randomBytes(24).toString("hex");
  await writeFile(path, `${token}\n`, { mode: 0o600 });
  return token;
}
