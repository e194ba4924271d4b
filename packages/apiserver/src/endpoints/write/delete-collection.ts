import { isNotFound } from "@keelson/api-machinery";
import { type Call, prefixOf } from "../call.ts";
import { deleteNamed } from "./delete.ts";
import { serveAll, typeMetaBytes } from "../object/serve-object.ts";
import { methodNotAllowed } from "../errors.ts";
import type { ListOutcome } from "../outcome.ts";
import { listStored } from "../read/read.ts";
import { selectionOf } from "../read/selection.ts";
import { deleteOptions } from "./delete-options.ts";

/** Concurrent deletes of one collection: enough to share commits, few enough for several collections at the same time. */
const maxParallelDeletes = 8;

/** Deletes the objects that a list with the same query returns. Responds with that list as it was. */
export async function deleteCollection(call: Call): Promise<ListOutcome> {
  const { resource } = call;
  if (resource.scope === "Namespaced" && call.namespace === "") throw methodNotAllowed(resource);
  const options = deleteOptions(call.request);
  const { items, listMeta } = await listStored(call, selectionOf(resource, call.query));
  const prefix = prefixOf(call);
  for (let start = 0; start < items.length; start += maxParallelDeletes) {
    const names = items.slice(start, start + maxParallelDeletes).map(({ key }) => key.slice(prefix.length));
    await Promise.all(names.map((name) => deleteIfPresent(call, name, options)));
  }
  return {
    kind: "list",
    items: await serveAll(call, items),
    listMeta,
    resource,
    itemSkip: resource.origin === "builtin" ? typeMetaBytes(resource) : 0,
  };
}

async function deleteIfPresent(call: Call, name: string, options: ReturnType<typeof deleteOptions>): Promise<void> {
  try {
    await deleteNamed(call, name, options);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
