import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A containerd of this benchmark, with one image. */
export interface OwnContainerd {
  /** Runs `ctr run --detach`. Returns its duration in ms; the program runs when the command exits. */
  run(id: string): number;
  /** Duration of `ctr --version` in ms: the part of {@link run} that starts the command. */
  commandMs(): number;
  remove(id: string): void;
  stop(): Promise<void>;
}

const image = "docker.io/library/bench:latest";

/** Path of a program, or undefined. */
const found = (name: string): string | undefined =>
  ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));

/** Starts a containerd with its files below `dir` and imports an image of BusyBox. Undefined if programs are missing. */
export async function startOwnContainerd(dir: string): Promise<OwnContainerd | undefined> {
  const busybox = found("busybox");
  if (busybox === undefined || ["ctr", "containerd", "runc"].some((name) => found(name) === undefined)) return undefined;
  mkdirSync(dir, { recursive: true });
  const socket = join(dir, "c.sock");
  const config = join(dir, "config.toml");
  writeFileSync(
    config,
    `version = 2\nroot = "${dir}/root"\nstate = "${dir}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "${socket}"\n`,
  );
  const daemon = spawn("containerd", ["--config", config, "--log-level", "error"], { stdio: "ignore" });
  const ended = once(daemon, "exit");
  const stop = async (): Promise<void> => {
    daemon.kill("SIGTERM");
    await ended;
  };
  const listening = waitForFile(dir, "c.sock");
  const isUp = await Promise.race([listening.then(() => true), ended.then(() => false)]);
  if (!isUp) return undefined;
  const ctr = (...words: string[]): void => {
    execFileSync("ctr", ["--address", socket, "--namespace", "bench", ...words], { stdio: ["ignore", "ignore", "pipe"] });
  };
  const archive = createArchive(join(dir, "image"), busybox);
  const snapshotter = ["overlayfs", "native"].find((name) => {
    try {
      ctr("images", "import", "--snapshotter", name, archive);
      ctr("run", "--rm", "--snapshotter", name, image, "first", "/bin/true");
      return true;
    } catch {
      return false;
    }
  });
  if (snapshotter === undefined) {
    await stop();
    return undefined;
  }
  const timed = (work: () => void): number => {
    const began = performance.now();
    work();
    return performance.now() - began;
  };
  return {
    run: (id) => timed(() => ctr("run", "--detach", "--snapshotter", snapshotter, image, id, "/bin/sleep", "600")),
    commandMs: () => timed(() => void spawnSync("ctr", ["--version"], { stdio: "ignore" })),
    remove: (id) => ctr("tasks", "delete", "--force", id),
    stop,
  };
}

async function waitForFile(dir: string, name: string): Promise<void> {
  const watcher = watch(dir);
  while (!existsSync(join(dir, name))) await once(watcher, "change");
  watcher.close();
}

/** Creates an OCI archive with BusyBox in one layer. */
function createArchive(dir: string, busybox: string): string {
  const blobs = join(dir, "layout", "blobs", "sha256");
  mkdirSync(join(dir, "root", "bin"), { recursive: true });
  mkdirSync(blobs, { recursive: true });
  copyFileSync(busybox, join(dir, "root", "bin", "busybox"));
  for (const name of ["sh", "sleep", "true"]) symlinkSync("busybox", join(dir, "root", "bin", name));
  const blob = (mediaType: string, bytes: Uint8Array): { mediaType: string; digest: string; size: number } => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(blobs, hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  execFileSync("tar", ["-C", join(dir, "root"), "-cf", join(dir, "layer.tar"), "."]);
  const layer = blob("application/vnd.oci.image.layer.v1.tar", readFileSync(join(dir, "layer.tar")));
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  const architecture = { x64: "amd64" }[process.arch as string] ?? process.arch;
  const config = blob(
    "application/vnd.oci.image.config.v1+json",
    json({ architecture, os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [layer.digest] } }),
  );
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = blob(mediaType, json({ schemaVersion: 2, mediaType, config, layers: [layer] }));
  const annotations = { "io.containerd.image.name": image };
  writeFileSync(join(dir, "layout", "index.json"), json({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }));
  writeFileSync(join(dir, "layout", "oci-layout"), json({ imageLayoutVersion: "1.0.0" }));
  execFileSync("tar", ["-C", join(dir, "layout"), "-cf", join(dir, "image.tar"), "index.json", "oci-layout", "blobs"]);
  return join(dir, "image.tar");
}
