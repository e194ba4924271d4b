import { defineConfig } from "vitest/config";

/** Patterns of the tests of programs that are missing, which `npm test` names; with `;` between them. */
const excluded = (process.env.EXCLUDED_TESTS ?? "").split(";").filter((pattern) => pattern !== "");

/** `fast` runs on every Node that we support; `e2e` starts real programs and needs a build. */
export default defineConfig({
  test: {
    projects: ["fast", "e2e"].map((name) => ({
      resolve: { conditions: ["source"] },
      ssr: { resolve: { conditions: ["source"] } },
      test: {
        name,
        include: [
          name === "fast" ? "{packages,operators,apps}/*/src/**/*.test.ts" : "{packages,operators,apps}/*/src/**/*.e2e.test.ts",
        ],
        exclude: ["**/node_modules/**", "**/dist/**", ...(name === "fast" ? ["**/*.e2e.test.ts"] : excluded)],
        testTimeout: name === "fast" ? 20_000 : 120_000,
        // A busy machine is slow, not wrong.
        expect: { poll: { timeout: name === "fast" ? 15_000 : 45_000 } },
        hookTimeout: name === "fast" ? 20_000 : 120_000,
      },
    })),
  },
});
