/*
 * `npm start`: installs and builds (as root on Debian it also installs the programs that the tour drives), then runs
 * `keelson up --tour`. Arguments after `--` are passed on: `npm start -- --exit` stops after the tour, with an exit status that says
 * whether everything succeeded.
 */
import { join } from "node:path";
import { build, install, requireNode, root } from "./steps.mjs";
import { installSystemPrograms } from "./system-programs.mjs";

requireNode();
await install();
await build();
const missing = await installSystemPrograms("tour");
if (missing.length > 0) {
  const packages = missing.flatMap((entry) => entry.packages);
  process.stdout.write(
    `the tour will skip workloads whose programs are missing; on Debian, run: apt-get install ${packages.join(" ")}\n`,
  );
}
process.argv = [process.execPath, join(root, "apps/cli/bin/keelson.js"), "up", "--tour", ...process.argv.slice(2)];
await import("../apps/cli/bin/keelson.js");
