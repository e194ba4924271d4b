import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { App } from "../api/app.ts";

/** What {@link awaitApp} waited for, or why it will not happen. */
export type AwaitedApp<T> = { readonly value: T } | { readonly problem: string };

/** Watches an App until `read` returns a value, or until the App is deleted: its controller then processes no more requests. */
export async function awaitApp<T>(
  client: Client,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  read: (app: DeepReadonly<App>) => T | undefined,
  signal: AbortSignal,
): Promise<AwaitedApp<T>> {
  const fieldSelector = `metadata.name=${name}`;
  const outcomeOf = (app: DeepReadonly<App> | undefined): AwaitedApp<T> | undefined => {
    if (app === undefined) return { problem: `App ${name} was deleted before the controller responded` };
    const value = read(app);
    if (value !== undefined) return { value };
    if (app.metadata.deletionTimestamp === undefined) return undefined;
    return { problem: `App ${name} is being deleted: its changes can no longer be controlled` };
  };
  // A server may end a watch at any time.
  for (;;) {
    signal.throwIfAborted();
    const { items, metadata } = await client.list(App, { namespace, fieldSelector, signal });
    const known = outcomeOf(items[0]);
    if (known !== undefined) return known;
    const resourceVersion = metadata.resourceVersion ?? "";
    const watch = await client.watch(App, { namespace, fieldSelector, resourceVersion, signal });
    try {
      for await (const event of watch) {
        if (event.type === "BOOKMARK") continue;
        const outcome = outcomeOf(event.type === "DELETED" ? undefined : event.object);
        if (outcome !== undefined) return outcome;
      }
    } finally {
      watch.close();
    }
  }
}
