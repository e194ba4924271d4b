import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { downloadBlob } from "./blob-download.ts";
import { ImageError } from "./image-error.ts";
import { defaultMaxImageBytes, openImage } from "./image-layout.ts";
import type { ImageLayout } from "./image-layout.ts";
import { hexOf, parseImageJson, parseManifest, requireManifest } from "./image-manifest.ts";
import type { Descriptor } from "./image-manifest.ts";
import { parseImageReference } from "./image-reference.ts";
import { createRegistryClient, readBody } from "./registry-client.ts";
import type { RegistryCredentials } from "./registry-client.ts";

/** Progress of a pull. Decreases if a blob has to be downloaded again. */
export interface PullProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/** Options of {@link pullImage}. */
export interface PullOptions {
  /** Directory for downloads. */
  readonly temporary: string;
  /** HTTP client: Node.js's `fetch`. */
  readonly fetch: typeof fetch;
  /** Called for every received chunk. */
  readonly onProgress?: (progress: PullProgress) => void;
  /** Default: 8 GiB. */
  readonly maxBytes?: number;
  /** Returns the account for a registry (`ghcr.io`, `docker.io`), if any; see `readDockerCredentials`. Default: anonymous. */
  readonly credentials?: (registry: string) => RegistryCredentials | undefined;
  /** Waits before an interrupted transfer is resumed. Default: resumes immediately. */
  readonly pause?: (ms: number) => Promise<void>;
  readonly signal?: AbortSignal;
}

const manifestTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];

/**
 * Pulls an image from a registry (OCI distribution specification 1.1) for this machine's architecture. Every blob is verified against its
 * digest and size while it arrives. Interrupted transfers are resumed.
 *
 * **Errors**: an {@link ImageError}. After an error or abort no files are left.
 */
export async function pullImage(name: string, options: PullOptions): Promise<ImageLayout> {
  const { maxBytes = defaultMaxImageBytes, onProgress = () => {} } = options;
  const reference = parseImageReference(name);
  const get = createRegistryClient(reference, options);
  const dir = await mkdtemp(join(options.temporary, "pull-"));
  const close = (): Promise<void> => rm(dir, { recursive: true, force: true });
  const blobPath = (digest: string): string => join(dir, "blobs", "sha256", hexOf(digest));
  try {
    await mkdir(join(dir, "blobs", "sha256"), { recursive: true });
    const fetchManifest = async (
      version: string,
    ): Promise<{ readonly found: Record<string, unknown>; readonly target: Descriptor }> => {
      const response = await get(`manifests/${version}`, { accept: manifestTypes.join(", ") });
      const body = await readBody(response);
      const digest = `sha256:${createHash("sha256").update(body).digest("hex")}`;
      if (version.includes(":") && version !== digest)
        throw new ImageError("Invalid", `${name}: the registry sent a manifest other than ${version}`);
      const mediaType = response.headers.get("content-type") ?? "";
      await writeFile(blobPath(digest), body);
      return { found: parseImageJson(body, "the manifest"), target: { mediaType, digest, size: body.length } };
    };
    let { found, target } = await fetchManifest(reference.version);
    if (Array.isArray(found.manifests)) ({ found, target } = await fetchManifest(requireManifest(found).digest));
    const manifest = parseManifest(found);
    const parts = [...new Map([manifest.config, ...manifest.layers].map((part) => [part.digest, part])).values()];
    const totalBytes = parts.reduce((sum, { size }) => sum + size, 0);
    if (totalBytes > maxBytes) throw new ImageError("TooLarge", `${name} has ${totalBytes} bytes; the limit is ${maxBytes}`);
    let doneBytes = 0;
    for (const part of parts) {
      const onBytes = (bytes: number): void => {
        doneBytes += bytes;
        onProgress({ doneBytes, totalBytes });
      };
      await downloadBlob(get, part, blobPath(part.digest), { ...options, onBytes });
    }
    await writeFile(join(dir, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    await writeFile(join(dir, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [target] }));
    return { ...(await openImage(dir, { temporary: options.temporary, maxBytes })), name: reference.name, close };
  } catch (error) {
    await close();
    throw error;
  }
}
