import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type KeelsonProcess, startKeelson } from "../testing/keelson-process.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/*
 * Runs the shell commands of each tutorial in the order of the page, against one `keelson up`. Blocks marked `interactive` are for
 * people, and `keelson up` itself runs already, on free ports.
 */
const root = fileURLToPath(new URL("../../../..", import.meta.url));
const command = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

const folder = temporaryFolder();
const dir = folder.path;
let keelson: KeelsonProcess;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  symlinkSync(join(root, "examples"), join(dir, "examples"));
  keelson = startKeelson(["up", "--data-dir", ".keelson", "--api-port", "0", "--mqtt-port", "0", "--fastpath-port", "0"], {
    cwd: dir,
  });
  await keelson.printed(/^ready$/m, 60_000);
  const broker = keelson.output().match(/mqtt:\/\/(127\.0\.0\.1:\d+)/)?.[1] ?? "";
  const fastPath = keelson.output().match(/http:\/\/(127\.0\.0\.1:\d+), token/)?.[1] ?? "";
  env = {
    ...process.env,
    PATH: `${writeNpx(broker)}:${process.env["PATH"] ?? ""}`,
    KEELSON_SANDBOX_ENDPOINT: fastPath,
    NO_COLOR: "1",
  };
}, 90_000);

afterAll(async () => {
  await keelson.stop();
  // The tutorials delete their objects without waiting for the programs, which outlive `keelson up`.
  folder[Symbol.dispose]();
});

/** Writes an `npx` that runs the built `keelson`, whose agents connect to this test's broker. Returns its directory. */
function writeNpx(broker: string): string {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  const file = join(bin, "npx");
  writeFileSync(
    file,
    `#!/bin/sh
shift
if [ "$1 $2" = "robots agent" ]; then shift 2; set -- robots agent --broker-url tcp://${broker} "$@"; fi
exec "${process.execPath}" "${command}" "$@"
`,
  );
  chmodSync(file, 0o755);
  return bin;
}

/** Runs the commands of a tutorial as one script and resolves to its output. Rejects with the output if a command fails. */
async function runTutorial(name: string): Promise<string> {
  const page = readFileSync(join(root, "docs/tutorials", `${name}.md`), "utf8");
  const blocks = [...page.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, text = ""]) => text);
  const commands = blocks.filter((text) => !/^(npx keelson up|apt-get|npm ci)\b/.test(text));
  try {
    const { stdout } = await promisify(execFile)("bash", ["-euc", `exec 2>&1\n${commands.join("\n")}`], {
      cwd: dir,
      env,
      timeout: 220_000,
    });
    return stdout;
  } catch (error) {
    throw new Error(`docs/tutorials/${name}.md: ${String((error as { stdout?: unknown }).stdout)}`, { cause: error });
  }
}

const timeout = 240_000;

test.concurrent("runs the robots tutorial", { timeout }, async () => {
  const output = await runTutorial("robots");
  expect(output.match(/on my way as /g)).toHaveLength(2);
});

test.concurrent("runs the test plane tutorial", { timeout }, async () => {
  const output = await runTutorial("testplane");
  expect(output).toContain("exit status 1");
});

test.concurrent("runs the MPI tutorial", { timeout }, async () => {
  const output = await runTutorial("mpi");
  expect(output).toMatch(/pi is 3\.14159\d*, by 2 ranks/);
  expect(output).toMatch(/pi is 3\.14159\d*, by 4 ranks/);
});

test.concurrent("runs the sandboxes tutorial", { timeout }, async () => {
  const output = await runTutorial("sandboxes");
  expect(output).toMatch(/^hello$/m);
  expect(output).toMatch(/^first\nsecond\nsecond\n/m);
});

test.concurrent("runs the PostgreSQL tutorial", { timeout }, async () => {
  const output = await runTutorial("postgres");
  expect(output).toMatch(/^ kept$/m);
});

test.concurrent("runs the middleware tutorial", { timeout }, async () => {
  const output = await runTutorial("middleware");
  expect(output).toMatch(/maxmemory/);
  expect(output).toMatch(/databases/);
});
