import type { StoredObject } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { serveAll } from "../object/serve-object.ts";
import type { Selection } from "./selection.ts";

/** Whether a selection reads fields that exist only after a webhook has converted an object to the requested version. */
export function selectsConverted({ resource }: Call, selection: Selection): boolean {
  return selection.readsFields && resource.convertByWebhook !== undefined;
}

/** The objects that match a selection in the requested version. Returns a promise only if a webhook has to convert them. */
export function matchingObjects(
  call: Call,
  selection: Selection,
  items: readonly StoredObject[],
): readonly StoredObject[] | Promise<readonly StoredObject[]> {
  if (!selection.isSelective) return items;
  if (!selectsConverted(call, selection)) return items.filter((stored) => selection.matches(stored));
  return matchingConverted(call, selection, items).then((matching) => items.filter((stored) => matching.has(stored)));
}

/** Those of the objects that match once they are converted. */
export async function matchingConverted(
  call: Call,
  selection: Selection,
  items: readonly StoredObject[],
): Promise<ReadonlySet<StoredObject>> {
  const served = await serveAll(call, items);
  return new Set(
    items.filter((_, index) => {
      const object = served[index];
      return object !== undefined && selection.matches(object);
    }),
  );
}
