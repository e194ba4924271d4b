/*
 * `npm start`: installs and builds what is missing, then `keelson up --tour`. Arguments after `--` go to keelson, so
 * `npm start -- --exit` ends after the tour, its exit status saying whether all succeeded.
 */
import { join } from "node:path";
import { build, install, requireNode, root } from "./steps.mjs";

requireNode();
install();
build();
process.argv = [process.execPath, join(root, "apps/cli/bin/keelson.js"), "up", "--tour", ...process.argv.slice(2)];
await import("../apps/cli/bin/keelson.js");
