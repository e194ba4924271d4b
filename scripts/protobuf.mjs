/* Generates TypeScript from proto files; with `--check`, only reports whether the committed files are up to date. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";

const files = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

/** `home` is the package's directory, `target` that of the generated files in it, `proto` that of the sources. With `--check`, exit status 1 where they are stale. */
export function generateProtobuf(home, target, proto = join(home, "proto")) {
  const root = resolve(import.meta.dirname, "..");
  const bin = join(root, "node_modules/.bin");
  const committed = join(home, target);

  function generate(out) {
    const template = {
      version: "v2",
      inputs: [{ directory: proto }],
      plugins: [{ local: [join(bin, "protoc-gen-es")], out, opt: ["target=ts", "import_extension=ts"] }],
    };
    execFileSync(join(bin, "buf"), ["generate", "--template", JSON.stringify(template)], { cwd: home, stdio: "inherit" });
    // Through standard input: the formatter looks at no file outside the project.
    for (const path of files(out)) {
      const formatted = execFileSync(
        join(bin, "biome"),
        ["format", `--stdin-file-path=${join(committed, relative(out, path))}`],
        {
          cwd: root,
          input: readFileSync(path),
        },
      );
      writeFileSync(path, formatted);
    }
  }

  if (!process.argv.includes("--check")) {
    rmSync(committed, { recursive: true, force: true });
    generate(committed);
    return;
  }
  const out = mkdtempSync(join(tmpdir(), "keelson-protobuf-"));
  try {
    generate(out);
    const stale = files(out).filter((path) => {
      const present = files(committed).find((each) => relative(committed, each) === relative(out, path));
      return present === undefined || readFileSync(present, "utf8") !== readFileSync(path, "utf8");
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
}
