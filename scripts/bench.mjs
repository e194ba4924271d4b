/* `npm run bench`: installs, builds and runs the benchmarks in `bench/`. */
import { build, install, requireNode } from "./steps.mjs";

requireNode();
await install();
await build();
await import("../bench/dist/main.js");
