import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openImage } from "@keelson/execution";

/** A registry on loopback that serves one image under every name. */
export interface TestRegistry {
  /** `127.0.0.1:port`. */
  readonly host: string;
  /** Stops the registry. Idempotent. */
  close(): Promise<void>;
}

/** Serves the image of an OCI archive (OCI distribution specification, pull) to clients that authenticate with `account`, `user:password`. */
export async function startRegistry(archive: string, account: string): Promise<TestRegistry> {
  const temporary = mkdtempSync(join(tmpdir(), "keelson-registry-"));
  const image = await openImage(archive, { temporary });
  const manifest = readFileSync(image.blob(image.target));
  const blobs = new Map(
    [image.manifest.config, ...image.manifest.layers].map((part) => [part.digest, readFileSync(image.blob(part))]),
  );
  await image.close();
  rmSync(temporary, { recursive: true, force: true });
  const digest = `sha256:${createHash("sha256").update(manifest).digest("hex")}`;
  const authorization = `Basic ${Buffer.from(account).toString("base64")}`;
  const server = createServer((request, response) => {
    const [, kind = "", version = ""] = /\/(manifests|blobs)\/([^/]+)$/.exec(request.url ?? "") ?? [];
    const found = kind === "manifests" ? manifest : blobs.get(version);
    if (request.headers.authorization !== authorization) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
    } else if (found === undefined) response.writeHead(404).end();
    else {
      const type = kind === "manifests" ? "application/vnd.oci.image.manifest.v1+json" : "application/octet-stream";
      response.writeHead(200, { "content-type": type, "docker-content-digest": digest }).end(found);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  let closing: Promise<void> | undefined;
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      closing ??= new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      return closing;
    },
  };
}
