import type { DeepReadonly } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { App } from "../api/app.ts";
import type { Component } from "../api/component.ts";
import type { Plugin } from "../plugin/plugin.ts";

/** What the App's controller sees. */
export interface AppObservation {
  readonly app: DeepReadonly<App>;
  /** Components of the App by their name within it. */
  readonly components: ReadonlyMap<string, DeepReadonly<Component>>;
  /** The plugin, or why there is none. */
  readonly plugin: Plugin | { readonly problem: string };
  readonly metadata: DeepReadonly<ConfigMapObject> | undefined;
  readonly now: number;
}
