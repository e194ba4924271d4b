import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { isUsageError, textFlag, UsageError } from "@keelson/operator/flags";
import { imageLayers, programPath } from "../build/image-contents.ts";
import { makeProgram } from "../build/make-program.ts";
import { mpiFilesOf } from "../build/mpi-files.ts";
import { findMpiexec, libraryOf } from "../launch/mpiexec/find-mpiexec.ts";

const defaultSearchPath = "/usr/local/bin:/usr/bin:/bin";
/** Larger archives than those of the default level, written several times as fast. */
const compressionLevel = 6;
/** `[REGISTRY/]REPOSITORY[:TAG]`. */
const imageName = /^(?:[a-z0-9.-]+(?::\d+)?\/)?(?:[a-z0-9._-]+\/)*([a-z0-9]+(?:[._-]+[a-z0-9]+)*)(?::[\w][\w.-]{0,127})?$/i;

const imageFlag = textFlag({
  name: "image",
  short: "i",
  value: "IMAGE",
  description: "name of the image: [REGISTRY/]NAME[:TAG]",
});
const fileFlag = textFlag({
  name: "file",
  short: "f",
  value: "MAKEFILE",
  description: "makefile; make runs in its directory (default: Makefile, or src/Makefile)",
});
const programFlag = textFlag({
  name: "program",
  value: "FILE",
  description: "program that make builds",
  default: "mpi-func",
});
const outputFlag = textFlag({
  name: "output",
  short: "o",
  value: "FILE",
  description: "OCI archive to write (default: NAME.tar)",
});

/** `keelson mpi build -i IMAGE -- MAKE ARGS`. */
export const buildCommand: CommandDefinition = {
  name: "build",
  description: "run make and write an image with the program and its MPI, as an OCI archive; needs no daemon",
  args: ["[MAKE_ARGS...]"],
  flags: [imageFlag, fileFlag, programFlag, outputFlag],
  usesCluster: false,
  async run(context) {
    try {
      return await build(context);
    } catch (error) {
      context.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      return isUsageError(error) ? 2 : 1;
    }
  },
};

async function build({ args, flags, stdout, signal }: CommandContext): Promise<number> {
  const image = imageFlag.read(flags);
  if (image === undefined)
    throw new UsageError("--image must be set; example: keelson mpi build --image registry.example/pi:1");
  const name = imageName.exec(image)?.[1];
  if (name === undefined) throw new UsageError(`--image ${image}: must be of the form [REGISTRY/]NAME[:TAG]`);
  const folder = process.cwd();
  const program = await makeProgram({
    ...{ folder, makefile: fileFlag.read(flags), args, program: programFlag.read(flags), signal },
  });
  if (libraryOf(readFileSync(program)) === undefined)
    throw new Error(`${program} is not linked with Open MPI or MPICH; compile it with mpicc or mpicxx, not statically`);
  const searchPath = process.env.PATH ?? defaultSearchPath;
  const mpiexec = findMpiexec({ implementation: "Auto", ranks: 1, command: [program] }, searchPath, folder);
  const file = resolve(folder, outputFlag.read(flags) ?? `${name}.tar`);
  const config = { Env: [`PATH=${defaultSearchPath}`], WorkingDir: "/app", Cmd: [programPath(program)] };
  const layers = imageLayers(program, mpiFilesOf(mpiexec), searchPath);
  // Loaded here, so that other commands start without it.
  const { createImage } = await import("@keelson/execution");
  const { digest, archiveBytes } = await createImage({ file, name: image, layers, config, compressionLevel });
  stdout.write(`${basename(file)}  ${image}  ${mpiexec.implementation}  ${(archiveBytes / 1e6).toFixed(1)} MB  ${digest}\n`);
  return 0;
}
