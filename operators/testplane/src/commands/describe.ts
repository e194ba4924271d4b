import type { CommandDefinition } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { describeTest } from "./describe-test.ts";
import { selectionFlags, selectTests } from "./report.ts";

/** `keelson testplane describe NAMES...`. */
export const describeCommand: CommandDefinition = {
  name: "describe",
  description: "describe tests in the cluster: verdict, steps, failed checks with expected and actual values, and rounds",
  args: ["[NAMES...]"],
  flags: [...selectionFlags],
  async run({ args, flags, stdout, signal, clock, client: connect }) {
    if (args.length === 0 && flags["selector"] === undefined)
      throw new UsageError("describe: name tests, or select them with -l; list them: keelson test list");
    const client = await connect();
    try {
      const tests = await selectTests(client, flags, args, signal);
      stdout.write(tests.map(({ namespace, test }) => describeTest({ ...test, namespace }, clock.now())).join("\n"));
      return 0;
    } finally {
      await client.close();
    }
  },
};
