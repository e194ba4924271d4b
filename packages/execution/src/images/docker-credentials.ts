import { readFile } from "node:fs/promises";
import { errorCode } from "../files/file-error.ts";
import { ImageError } from "./image-error.ts";
import { parseImageJson } from "./image-manifest.ts";
import type { RegistryCredentials } from "./registry-client.ts";

/** Docker Hub's key in Docker's files; other registries use their host name. */
const dockerHub = "index.docker.io";

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/**
 * Reads the accounts (`auths`) in the text of Docker's `config.json`, as `docker login` writes it without a credential store. Credential
 * helpers (`credsStore`, `credHelpers`) are ignored. Throws an {@link ImageError} for an invalid file.
 */
export function parseDockerCredentials(text: string): (registry: string) => RegistryCredentials | undefined {
  const { auths } = parseImageJson(Buffer.from(text), "Docker's config.json");
  const accounts = new Map<string, RegistryCredentials>();
  for (const [key, value] of Object.entries(isRecord(auths) ? auths : {})) {
    if (!isRecord(value) || typeof value.auth !== "string") continue;
    const pair = Buffer.from(value.auth, "base64").toString("utf8");
    const colon = pair.indexOf(":");
    const host = key.replace(/^https?:\/\//, "").replace(/\/.*$/, "");
    if (colon > 0) accounts.set(host, { username: pair.slice(0, colon), password: pair.slice(colon + 1) });
  }
  return (registry) => accounts.get(registry === "docker.io" ? dockerHub : registry) ?? accounts.get(registry);
}

/** {@link parseDockerCredentials} of a file; no accounts if the file does not exist. */
export async function readDockerCredentials(path: string): Promise<(registry: string) => RegistryCredentials | undefined> {
  try {
    return parseDockerCredentials(await readFile(path, "utf8"));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return () => undefined;
    if (error instanceof ImageError) throw new ImageError("Invalid", `${path}: ${error.message}`, { cause: error });
    throw error;
  }
}
