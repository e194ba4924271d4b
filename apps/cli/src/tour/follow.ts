import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { collect } from "./collect.ts";
import type { TourContext } from "./family-tour.ts";
import { namespace } from "./manifests.ts";
import type { Row } from "./live-view.ts";

/** Describes an object in a row. */
export type RowOf<T> = (object: DeepReadonly<T>) => Pick<Row, "state" | "note" | "mood">;

/** Shows one row per named object until `isEnded` returns true for all of them. Resolves to the objects in the order of `names`. */
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

/** Formats the time since `started`, a monotonic time of the same clock: `1.2 s`. */
export function secondsSince(context: Pick<TourContext, "clock">, started: number): string {
  return `${((context.clock.monotonic() - started) / 1000).toFixed(1)} s`;
}
