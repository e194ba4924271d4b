import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { App } from "../api/app.ts";
import { awaitObject } from "@keelson/operator";

/** What {@link awaitApp} waited for, or why it will not happen. */
export type AwaitedApp<T> = { readonly value: T } | { readonly problem: string };

/** Watches an App until `read` returns a value, or until the App is deleted: its controller then processes no more requests. */
export async function awaitApp<T>(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
  read: (app: DeepReadonly<App>) => T | undefined,
  signal: AbortSignal,
): Promise<AwaitedApp<T>> {
  const outcomeOf = (app: DeepReadonly<App>): AwaitedApp<T> | undefined => {
    const value = read(app);
    if (value !== undefined) return { value };
    if (app.metadata.deletionTimestamp === undefined) return undefined;
    return { problem: `App ${key.name} is being deleted: its changes can no longer be controlled` };
  };
  const outcome = await awaitObject(client, App, key, outcomeOf, signal);
  return outcome ?? { problem: `App ${key.name} was deleted before the controller responded` };
}
