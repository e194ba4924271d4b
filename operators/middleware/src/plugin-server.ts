import { isDeepStrictEqual } from "node:util";
import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject, Namespace } from "@keelson/api-machinery/kinds";
import { readOf } from "@keelson/controller";
import type { PluginDefinition } from "@keelson/middleware-agent";
import type { ServerDefinition } from "@keelson/operator";
import { labels, pluginNamespace } from "./api/names.ts";
import { pluginConfigMapName } from "./plugin/read-plugin.ts";

const fieldManager = "middleware-plugins";

/** Installs Keelson's built-in plugins in the cluster. Those that are installed unchanged are not written, because each write renders their templates. */
export function createPluginServer(plugins: readonly PluginDefinition[]): ServerDefinition {
  return {
    name: "plugins",
    needsLeaderElection: true,
    reads: [readOf(ConfigMap)],
    async start({ client, cache }) {
      const changed = plugins
        .map(({ name, version, data }) => ({
          metadata: {
            name: pluginConfigMapName(name, version),
            namespace: pluginNamespace,
            labels: { [labels.plugin]: name, [labels.pluginVersion]: version },
          },
          data: { ...data },
        }))
        .filter((configMap) => !isInstalled(cache.get(ConfigMap, configMap.metadata), configMap));
      if (changed.length > 0) await client.apply(Namespace, { metadata: { name: pluginNamespace } }, { fieldManager });
      for (const configMap of changed) await client.apply(ConfigMap, configMap, { fieldManager });
      const names = plugins.map(({ name, version }) => `${name} ${version}`);
      return { description: `plugins: ${names.join(", ")}`, stop: () => Promise.resolve() };
    },
  };
}

function isInstalled(
  current: DeepReadonly<ConfigMapObject> | undefined,
  { metadata, data }: { readonly metadata: { readonly labels: Readonly<Record<string, string>> }; readonly data: object },
): boolean {
  if (current === undefined || !isDeepStrictEqual({ ...current.data }, data)) return false;
  return Object.entries(metadata.labels).every(([name, value]) => current.metadata.labels?.[name] === value);
}
