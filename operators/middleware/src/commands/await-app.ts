import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { App } from "../api/app.ts";

/** Watches an App until `read` returns a value. Resolves to undefined if the App was deleted. */
export async function awaitApp<T>(
  client: Client,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  read: (app: DeepReadonly<App>) => T | undefined,
  signal: AbortSignal,
): Promise<T | undefined> {
  const fieldSelector = `metadata.name=${name}`;
  const { items, metadata } = await client.list(App, { namespace, fieldSelector, signal });
  const [app] = items;
  if (app === undefined) return undefined;
  const now = read(app);
  if (now !== undefined) return now;
  const resourceVersion = metadata.resourceVersion ?? "";
  const watch = await client.watch(App, { namespace, fieldSelector, resourceVersion, signal });
  try {
    for await (const event of watch) {
      const value = event.type === "MODIFIED" ? read(event.object) : undefined;
      if (value !== undefined) return value;
      if (event.type === "DELETED") return undefined;
    }
  } finally {
    watch.close();
  }
  return undefined;
}
