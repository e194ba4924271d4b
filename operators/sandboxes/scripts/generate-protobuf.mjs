// Generates src/fastpath/generated from proto/; with --check only says whether that is as it would be generated (exit status 1 if not).
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const home = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const bin = resolve(home, "../../node_modules/.bin");
const target = join(home, "src/fastpath/generated");

function generate(out) {
  const template = {
    version: "v2",
    inputs: [{ directory: join(home, "proto") }],
    plugins: [{ local: [join(bin, "protoc-gen-es")], out, opt: ["target=ts", "import_extension=ts"] }],
  };
  execFileSync(join(bin, "buf"), ["generate", "--template", JSON.stringify(template)], { cwd: home, stdio: "inherit" });
  // Through standard input: the formatter looks at no file outside of the project.
  for (const path of files(out)) {
    const formatted = execFileSync(join(bin, "biome"), ["format", `--stdin-file-path=${join(target, relative(out, path))}`], {
      cwd: resolve(home, "../.."),
      input: readFileSync(path),
    });
    writeFileSync(path, formatted);
  }
}

const files = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

if (process.argv.includes("--check")) {
  const out = mkdtempSync(join(tmpdir(), "keelson-protobuf-"));
  try {
    generate(out);
    const stale = files(out).filter((path) => {
      const committed = files(target).find((each) => relative(target, each) === relative(out, path));
      return committed === undefined || readFileSync(committed, "utf8") !== readFileSync(path, "utf8");
    });
    if (stale.length > 0) {
      process.stderr.write(
        `not as generated: ${stale.map((path) => relative(out, path)).join(", ")}; run node ${process.argv[1]}\n`,
      );
      process.exitCode = 1;
    }
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
} else {
  rmSync(target, { recursive: true, force: true });
  generate(target);
}
