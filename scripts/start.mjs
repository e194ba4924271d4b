/*
 * `npm start`: installs and builds what is missing (as root on Debian also the programs that the tour drives), then `keelson up --tour`. Arguments after `--` go to keelson, so
 * `npm start -- --exit` ends after the tour, its exit status saying whether all succeeded.
 */
import { join } from "node:path";
import { build, install, requireNode, root } from "./steps.mjs";
import { installSystemPrograms } from "./system-programs.mjs";

requireNode();
install();
build();
const missing = installSystemPrograms("tour");
if (missing.length > 0) {
  const packages = missing.flatMap((entry) => entry.packages);
  process.stdout.write(`parts of the tour need programs that are missing; on Debian: apt-get install ${packages.join(" ")}\n`);
}
process.argv = [process.execPath, join(root, "apps/cli/bin/keelson.js"), "up", "--tour", ...process.argv.slice(2)];
await import("../apps/cli/bin/keelson.js");
