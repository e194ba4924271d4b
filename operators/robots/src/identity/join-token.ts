import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { ignoreNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { joinTokenSecret } from "../api/names.ts";
import { RobotsError } from "../robots-error.ts";
import { Secret } from "../api/secret.ts";

const fieldManager = "robots-join-token";

/** Path of the join token file in the operator's data directory. */
export function joinTokenFile(dataDir: string): string {
  return join(dataDir, "join-token");
}

/**
 * Reads the join token from the file, else from the Secret, else generates one. Afterwards both hold it. Only the owner can read
 * the file.
 *
 * **Errors**: {@link RobotsError} `InvalidJoinTokenFile` if the file is empty; rejects if the file or the Secret cannot be written.
 */
export async function ensureJoinToken(options: {
  readonly dataDir: string;
  readonly client: Client;
  readonly namespace: string;
  readonly random?: () => string;
}): Promise<string> {
  const { dataDir, client, namespace, random = () => randomBytes(24).toString("base64url") } = options;
  const file = joinTokenFile(dataDir);
  const stored = await readSecret(client, namespace);
  const own = await readToken(file);
  const token = own ?? stored ?? random();
  if (own === undefined) await writeToken(dataDir, file, token);
  if (stored !== token) {
    await client.apply(
      Secret,
      {
        metadata: { name: joinTokenSecret, namespace },
        type: "Opaque",
        data: { token: Buffer.from(token).toString("base64") },
      },
      { fieldManager },
    );
  }
  return token;
}

async function readSecret(client: Client, namespace: string): Promise<string | undefined> {
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: joinTokenSecret }));
  const token = Buffer.from(secret?.data?.token ?? "", "base64")
    .toString("utf8")
    .trim();
  return token === "" ? undefined : token;
}

async function readToken(file: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const token = text.trim();
  if (token === "") {
    throw new RobotsError("InvalidJoinTokenFile", `${file} is empty; write a join token to it, or remove it to generate one`);
  }
  return token;
}

/** Writes the file atomically, so that a crash does not leave half a token. */
async function writeToken(dataDir: string, file: string, token: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${file}.new`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.chmod(0o600);
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}
