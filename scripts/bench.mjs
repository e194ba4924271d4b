/* `npm run bench`: installs and builds what is missing, then runs the benchmarks of `bench/`. */
import { build, install, requireNode } from "./steps.mjs";

requireNode();
install();
build();
await import("../bench/dist/main.js");
