import { runSteps, type Steps } from "@keelson/api-machinery/server";
import { duplicateCause, maxCauses, type StatusCause } from "@keelson/api-machinery/validation";

/**
 * Validation failures in order. A validator yields `undefined` for each item of a collection, including for a valid one, so that a server can do
 * other work while it validates a large object. An array is suitable where the number of items is bounded.
 */
export type Causes = Iterable<StatusCause | undefined>;

/** The failures of the items of a collection, in order. */
export function* eachItem<T>(items: Iterable<T>, causesOf: (item: T, index: number) => Causes): Causes {
  let index = 0;
  for (const item of items) {
    yield;
    yield* causesOf(item, index++);
  }
}

/** Creates a function that reports whether it was called with an equal value before. Takes constant time per value. */
export function createRepeatCheck(): (value: unknown) => boolean {
  const seen = new Set<unknown>();
  return (value) => seen.size === seen.add(value).size;
}

/** A failure for each item that repeats an earlier one. */
export function* repeatCauses(items: readonly unknown[], path: string): Causes {
  const isRepeated = createRepeatCheck();
  yield* eachItem(items, (item, index) => (isRepeated(item) ? [duplicateCause(`${path}[${index}]`, item)] : []));
}

/** The failures themselves; returns their number. */
export function* countCauses(causes: Causes): Generator<StatusCause | undefined, number, void> {
  let count = 0;
  for (const cause of causes) {
    if (cause !== undefined) count++;
    yield cause;
  }
  return count;
}

/** Items between two steps of a validation: about a millisecond. */
const itemsPerStep = 200;

/** Characters of messages after which no more failures are collected: each may contain a value of megabytes. */
const maxCharacters = 1024 * 1024;

/** Collects failures in steps. Stops at {@link maxCauses}, since the rest would not be reported, and at a megabyte of messages. */
export function* collectInSteps(causes: Causes): Steps<readonly StatusCause[]> {
  const found: StatusCause[] = [];
  let items = 0;
  let characters = 0;
  for (const cause of causes) {
    if (cause !== undefined) {
      found.push(cause);
      characters += cause.message?.length ?? 0;
      if (found.length >= maxCauses || characters > maxCharacters) break;
    }
    if (++items % itemsPerStep === 0) yield;
  }
  return found;
}

/** Collects failures without a pause. */
export function collectCauses(causes: Causes): readonly StatusCause[] {
  return runSteps(collectInSteps(causes));
}
