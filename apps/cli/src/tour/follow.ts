import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { collect } from "./collect.ts";
import type { TourContext } from "./family-tour.ts";
import { namespace } from "./manifests.ts";
import type { Row } from "./live-view.ts";

/** What a row says of an object. */
export type RowOf<T> = (object: DeepReadonly<T>) => Pick<Row, "state" | "note" | "mood">;

/**
 * Shows the named objects of a kind, a row each, until every one of them is as `isEnded` wants it. Answers them, in the order of
 * the names.
 */
export async function follow<T extends KubernetesObject>(
  { client, signal, show }: Pick<TourContext, "client" | "signal" | "show">,
  type: ResourceType<T>,
  names: readonly string[],
  rowOf: RowOf<T>,
  isEnded: (object: DeepReadonly<T>) => boolean,
): Promise<readonly DeepReadonly<T>[]> {
  const pick = (objects: readonly DeepReadonly<T>[]): DeepReadonly<T>[] =>
    names.flatMap((name) => objects.filter((object) => object.metadata.name === name));
  const seen = await collect(
    client,
    [{ type, namespace }],
    signal,
    (objects) =>
      show(
        pick(objects.of(type)).map((object) => ({
          key: object.metadata.name ?? "",
          depth: 0,
          kind: type.kind,
          name: object.metadata.name ?? "",
          ...rowOf(object),
        })),
      ),
    (objects) => {
      const found = pick(objects.of(type));
      return found.length === names.length && found.every(isEnded);
    },
  );
  return pick(seen.of(type));
}

/** Seconds since `started` (by the same clock), with one digit. */
export function secondsSince(context: Pick<TourContext, "clock">, started: number): string {
  return `${((context.clock.monotonic() - started) / 1000).toFixed(1)} s`;
}
