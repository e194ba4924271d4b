import type { ResourceType } from "@keelson/api-machinery";
import type { KindSource } from "./garbage-collector/object-monitor.ts";

/** The kinds that an API server serves, each version by itself: `ResourceTable` of `@keelson/apiserver` is one. */
export interface ServedKinds {
  list(): readonly (ResourceType & { readonly verbs: readonly string[]; readonly storageApiVersion: string })[];
  /** Calls `listener` when the kinds have changed. Returns the way to stop. */
  onChange(listener: () => void): () => void;
}

/** The kinds whose objects come and go, each once, in the version that is stored: so each object is followed once. */
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
