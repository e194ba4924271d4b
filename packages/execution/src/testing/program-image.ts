import { execFile } from "node:child_process";
import { realpathSync } from "node:fs";
import { promisify } from "node:util";
import { createImage } from "../images/create-image.ts";

const run = promisify(execFile);

/** Creates an OCI archive at `file` with programs of this machine and their shared libraries, and nothing else. */
export async function createProgramImage(file: string, name: string, programs: readonly string[]): Promise<void> {
  const libraries = (await Promise.all(programs.map(librariesOf))).flat();
  const entries = [...new Set([...programs, ...libraries])].map((path) => ({
    path,
    mode: 0o755,
    content: { kind: "file", source: realpathSync(path) } as const,
  }));
  const folder = { path: "/tmp", mode: 0o1777, content: { kind: "folder" } } as const;
  const config = { Env: ["PATH=/usr/local/bin:/usr/bin:/bin"] };
  const layers = [{ description: programs.join(", "), entries: [...entries, folder] }];
  await createImage({ file, name, layers, config, compressionLevel: 1 });
}

/** Paths from lines of ldd such as `libm.so.6 => /lib/.../libm.so.6 (0x...)`. */
async function librariesOf(program: string): Promise<readonly string[]> {
  const { stdout } = await run("ldd", [program]);
  const lines = stdout.split("\n").map((line) => /(?:=>\s*|^\s*)(\/\S+)\s+\(0x/.exec(line)?.[1]);
  return lines.filter((library) => library !== undefined);
}
