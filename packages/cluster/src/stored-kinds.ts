import type { ResourceType } from "@keelson/api-machinery";
import type { KindSource } from "./garbage-collector/object-monitor.ts";

/** The resources that an API server serves, one entry per version: `ResourceTable` of `@keelson/apiserver` is one. */
export interface ServedKinds {
  list(): readonly (ResourceType & { readonly verbs: readonly string[]; readonly storageApiVersion: string })[];
  /** Calls `listener` when the resources change. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

/** Lists every deletable kind once, in its storage version, so that each object is watched once. */
export function storedKinds(served: ServedKinds): KindSource {
  return {
    list: () =>
      served
        .list()
        .filter(({ verbs }) => verbs.includes("delete") && verbs.includes("watch"))
        .filter(
          ({ group, version, storageApiVersion }) => storageApiVersion === (group === "" ? version : `${group}/${version}`),
        )
        .map(({ group, version, kind, plural, scope }) => ({ group, version, kind, plural, scope })),
    onChange: (listener) => served.onChange(listener),
  };
}
