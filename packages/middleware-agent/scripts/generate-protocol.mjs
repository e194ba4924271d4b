/* Makes src/agent2.generated.ts from proto/. With --check: fails where the committed file is not what would be made. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(here, "../../node_modules/.bin");
const target = join(here, "src/agent2.generated.ts");
const folder = mkdtempSync(join(tmpdir(), "keelson-protocol-"));
try {
  const template = {
    version: "v2",
    plugins: [{ local: join(bin, "protoc-gen-es"), out: folder, opt: ["target=ts", "import_extension=ts"] }],
  };
  const run = spawnSync(join(bin, "buf"), ["generate", "proto", "--template", JSON.stringify(template)], {
    cwd: here,
    encoding: "utf8",
  });
  if (run.status !== 0) throw new Error(`buf: ${run.error ?? run.stderr}`);
  const made = readFileSync(join(folder, "agent2/v1/agent2_pb.ts"), "utf8");
  if (!process.argv.includes("--check")) writeFileSync(target, made);
  else if (readFileSync(target, "utf8") !== made) {
    console.error(
      "src/agent2.generated.ts is not what proto/ gives: run node packages/middleware-agent/scripts/generate-protocol.mjs",
    );
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
