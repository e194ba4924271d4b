import { execFile } from "node:child_process";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { create, toBinary } from "@bufbuild/protobuf";
import { describeError } from "../files/file-error.ts";
import type { Isolation } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import { OptionsSchema } from "./generated/containerd/runc/options_pb.ts";

/** The path of runsc (gVisor), or undefined if it is not installed. */
export function findRunsc(searchPath: string = process.env.PATH ?? ""): string | undefined {
  return [...searchPath.split(delimiter), "/usr/local/bin", "/usr/bin"]
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, "runsc"))
    .find((path) => existsSync(path));
}

/** The runtime of a container, in containerd's format. */
export interface ContainerRuntime {
  readonly name: string;
  readonly options?: { readonly typeUrl: string; readonly value: Uint8Array };
}

const name = "io.containerd.runc.v2";

/**
 * containerd's shim for runc also runs runsc, as Docker does, so gVisor's own shim is not needed. The network of gVisor is that of the
 * container's namespace, in which the exposed ports and the network policy of a sandbox are: its own would not serve its loopback there.
 */
const runscScript = (path: string): string => `#!/bin/sh\nexec '${path.replaceAll("'", "'\\''")}' --network=host "$@"\n`;

/** Enables the loopback interface in the network namespace of a process. runc does it by itself, runsc does not. */
export async function enableLoopback(pid: number): Promise<void> {
  await promisify(execFile)("nsenter", [`--net=/proc/${pid}/ns/net`, "--", "ip", "link", "set", "lo", "up"]).catch(
    (error: unknown) => {
      throw new StartFailure(`could not start the program: could not enable its loopback: ${describeError(error)}`, 126);
    },
  );
}

/** The runtime of a program. `dir` is the directory of its driver. Throws {@link StartFailure} if runsc is not installed. */
export function containerRuntime(
  { runtime = "runc" }: Pick<Isolation, "runtime"> = {},
  dir: string,
  path = findRunsc() ?? "",
): ContainerRuntime {
  if (runtime === "runc") return { name };
  if (path === "")
    throw new StartFailure("could not start the program: isolation.runtime: runsc not found; install gVisor", 126);
  const script = join(dir, ".runsc");
  writeScript(script, runscScript(path));
  const options = create(OptionsSchema, { binaryName: script });
  return { name, options: { typeUrl: OptionsSchema.typeName, value: toBinary(OptionsSchema, options) } };
}

/** Shims of running containers execute the script at any time, so it is replaced as a whole, and only if it changes. */
function writeScript(script: string, text: string): void {
  if (existsSync(script) && readFileSync(script, "utf8") === text) return;
  const fresh = `${script}.new`;
  try {
    writeFileSync(fresh, text, { mode: 0o755 });
    renameSync(fresh, script);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
}
