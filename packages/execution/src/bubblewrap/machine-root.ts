import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { UserIds } from "../program/users/user.ts";

/** Directories of the machine that a program without an image sees, read-only, at the same paths. Never /etc, /opt, /home or /root. */
export const machineFolders = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/** Files and directories of the machine's /etc that programs need and that contain no secrets: the linker, certificates, name tables. */
export const publicSettings = [
  "/etc/alternatives",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/localtime",
  "/etc/mime.types",
  "/etc/openmpi",
  "/etc/protocols",
  "/etc/services",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/terminfo",
];

/** Files of /etc that are generated for each program. */
export const generatedSettings = ["passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"] as const;

/** Where a program with an image has its work directory. */
export const imageWork = "/work";

/** Home directory of a program's user in a root without an image. */
const home = "/tmp";

/** Writes the generated files of a program's /etc into `folder`. A program on the machine's network gets its name resolution. */
export function writeSettings(folder: string, user: UserIds, network: "shared" | "none", hostname = "sandbox"): void {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const account = user.uid === 0 ? "" : `sandbox:x:${user.uid}:${user.gid}:sandbox:${home}:/bin/sh\n`;
  const group = user.gid === 0 ? "" : `sandbox:x:${user.gid}:\n`;
  const files: Readonly<Record<(typeof generatedSettings)[number], string>> = {
    passwd: `root:x:0:0:root:${home}:/bin/sh\n${account}nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
    group: `root:x:0:\n${group}nogroup:x:65534:\n`,
    hosts: network === "shared" ? read("/etc/hosts") : `127.0.0.1 localhost ${hostname}\n::1 localhost\n`,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nprotocols: files\nservices: files\n",
    "resolv.conf": network === "shared" ? read("/etc/resolv.conf") : "",
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o644 });
}

function read(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}
