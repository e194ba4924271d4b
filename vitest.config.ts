import { defineConfig } from "vitest/config";
import { lateOptimization } from "./apps/cli/src/local/processes/v8-options.ts";
import { SlowestFirst } from "./scripts/test-sequencer.ts";

/** Patterns of tests that do not run, separated by `;`. `npm test` sets them, and reports those whose programs are missing. */
const excluded = (process.env.EXCLUDED_TESTS ?? "").split(";").filter((pattern) => pattern !== "");

/**
 * Settings that differ between the projects. The timeouts only end tests that hang, because
 * a busy machine takes ten times as long as an idle one.
 * `fast` runs on every supported Node.js; `e2e` starts real programs and needs a build, from which its tests load other packages too.
 */
const projects = [
  {
    name: "fast",
    include: ["{packages,operators,apps,examples,bench}/**/src/**/*.test.ts"],
    exclude: ["**/*.{e2e,helm}.test.ts", ...excluded],
    timeoutMs: 60_000,
    pollTimeoutMs: 45_000,
    // The code keeps no state in modules, so test files can share them.
    isolate: false,
    maxWorkers: 2,
    packages: "source",
  },
  {
    name: "e2e",
    include: ["{packages,operators,apps}/*/src/**/*.e2e.test.ts"],
    exclude: excluded,
    timeoutMs: 300_000,
    pollTimeoutMs: 120_000,
    // Loading the packages takes a worker as long as many of these files take to run.
    isolate: false,
    // These tests mostly wait for processes; each has its own directory, ports and address block.
    maxWorkers: 4,
    packages: "dist",
  },
  {
    // Compares the chart with Helm, which no package of Debian provides.
    name: "helm",
    include: ["apps/cli/src/**/*.helm.test.ts"],
    exclude: [],
    timeoutMs: 60_000,
    pollTimeoutMs: 15_000,
    isolate: true,
    maxWorkers: 1,
    packages: "source",
  },
] as const;

/** How tests import other packages: from their sources, or as Node.js does, which takes half of the CPU time. */
const imports = {
  source: { resolve: { conditions: ["source"] }, ssr: { resolve: { conditions: ["source"] } }, server: {} },
  dist: { resolve: {}, ssr: {}, server: { deps: { external: [/\/dist\/.*\.js$/] } } },
};

export default defineConfig({
  test: {
    sequence: { sequencer: SlowestFirst },
    // Shared by the runs of one `npm test` only: the cache's key does not cover the exports of package.json.
    experimental:
      process.env.TEST_MODULE_CACHE === undefined
        ? {}
        : { fsModuleCache: true, fsModuleCachePath: process.env.TEST_MODULE_CACHE },
    projects: projects.map(({ name, include, exclude, timeoutMs, pollTimeoutMs, isolate, maxWorkers, packages }, index) => ({
      resolve: imports[packages].resolve,
      ssr: imports[packages].ssr,
      test: {
        server: imports[packages].server,
        name,
        include: [...include],
        exclude: ["**/node_modules/**", "**/dist/**", ...exclude],
        isolate,
        setupFiles: ["./scripts/vitest-setup.mjs"],
        maxWorkers,
        execArgv: [...lateOptimization()],
        sequence: { groupOrder: index },
        testTimeout: timeoutMs,
        hookTimeout: timeoutMs,
        // A busy machine is slow, not wrong.
        expect: { poll: { timeout: pollTimeoutMs } },
      },
    })),
  },
});
