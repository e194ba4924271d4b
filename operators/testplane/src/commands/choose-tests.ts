import { parseLabelSelector } from "@keelson/api-machinery/selectors";
import type { FlagValues } from "@keelson/operator";
import { type Flag, textFlag, UsageError } from "@keelson/operator/flags";
import type { TestManifest } from "./test-files.ts";

/** `--selector` of commands that run tests. */
export const selectorFlag: Flag<string | undefined> = textFlag({
  name: "selector",
  short: "l",
  value: "LABELS",
  description: "only tests with these labels, such as app=web",
});

/** `--shard` of commands that run tests. */
export const shardFlag: Flag<string | undefined> = textFlag({
  name: "shard",
  value: "I/N",
  description: "only the I-th of N parts of the tests, to run them on several machines",
});

/**
 * The tests that the flags select, in their order. The parts of all shards are disjoint and together complete, if all of them read the
 * same files. **Errors**: `UsageError` for an invalid flag.
 */
export function chooseTests(manifests: readonly TestManifest[], flags: FlagValues): readonly TestManifest[] {
  const matches = selectionOf(selectorFlag.read(flags));
  const { index, count } = shardOf(shardFlag.read(flags));
  return manifests.filter(({ labels }) => matches(labels)).filter((_, position) => position % count === index);
}

function selectionOf(text: string | undefined): (labels: Readonly<Record<string, string>>) => boolean {
  if (text === undefined) return () => true;
  try {
    const selector = parseLabelSelector(text);
    return (labels) => selector.matches(labels);
  } catch (error) {
    throw new UsageError(`--selector: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

function shardOf(text: string | undefined): { readonly index: number; readonly count: number } {
  if (text === undefined) return { index: 0, count: 1 };
  const [, first, second] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? [];
  const [index, count] = [Number(first), Number(second)];
  if (!(index >= 1 && index <= count)) {
    throw new UsageError(`--shard: must be I/N with I between 1 and N, such as 2/4, not ${JSON.stringify(text)}`);
  }
  return { index: index - 1, count };
}
