import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { architecture } from "../images/image-manifest.ts";

/** Path of Debian's busybox-static. */
const busybox = "/bin/busybox";

const applets = ["sh", "cat", "echo", "env", "false", "id", "ls", "pwd", "sleep", "stty", "touch", "true", "tty"];

/**
 * Creates an OCI archive at `file` with two layers: busybox and a passwd file with the user `worker` (1234:1235), and a layer that removes
 * `/etc/gone` of the first and changes `/etc/motd`. Needs a statically linked busybox. `settings` override the image's configuration
 * (OCI image specification: `User`, `WorkingDir`, `Entrypoint` ...).
 */
export async function createBusyboxImage(file: string, settings: Readonly<Record<string, unknown>> = {}): Promise<void> {
  const dir = `${file}.parts`;
  const blobs = join(dir, "layout", "blobs", "sha256");
  mkdirSync(blobs, { recursive: true });
  const put = (bytes: Uint8Array, mediaType: string): { digest: string; size: number; mediaType: string } => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(blobs, hex), bytes);
    return { digest: `sha256:${hex}`, size: bytes.length, mediaType };
  };
  const write = (root: string, files: Readonly<Record<string, string>>): void => {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(root, name), content);
  };
  const [first, second] = [join(dir, "first"), join(dir, "second")];
  for (const folder of ["bin", "etc", "tmp"]) mkdirSync(join(first, folder), { recursive: true });
  mkdirSync(join(second, "etc"), { recursive: true });
  copyFileSync(busybox, join(first, "bin", "busybox"));
  for (const applet of applets) symlinkSync("busybox", join(first, "bin", applet));
  const passwd = "root:x:0:0::/root:/bin/sh\nworker:x:1234:1235::/:/bin/sh\n";
  write(first, { "etc/passwd": passwd, "etc/gone": "x\n", "etc/motd": "below\n" });
  write(second, { "etc/.wh.gone": "", "etc/motd": "above\n" });
  const layers: { digest: string; size: number; mediaType: string }[] = [];
  const diffIds: string[] = [];
  for (const root of [first, second]) {
    const path = `${root}.tar`;
    await create({ cwd: root, file: path, portable: true }, ["."]);
    const bytes = readFileSync(path);
    diffIds.push(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
    layers.push(put(gzipSync(bytes), "application/vnd.oci.image.layer.v1.tar+gzip"));
  }
  const config = put(
    Buffer.from(
      JSON.stringify({
        os: "linux",
        architecture,
        config: { Env: ["PATH=/bin", "FROM_IMAGE=yes"], Cmd: ["/bin/sh"], ...settings },
        rootfs: { type: "layers", diff_ids: diffIds },
      }),
    ),
    "application/vnd.oci.image.config.v1+json",
  );
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = put(Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers })), mediaType);
  write(join(dir, "layout"), {
    "oci-layout": JSON.stringify({ imageLayoutVersion: "1.0.0" }),
    "index.json": JSON.stringify({ schemaVersion: 2, manifests: [manifest] }),
  });
  await create({ cwd: join(dir, "layout"), file, portable: true }, ["oci-layout", "index.json", "blobs"]);
  rmSync(dir, { recursive: true, force: true });
}
