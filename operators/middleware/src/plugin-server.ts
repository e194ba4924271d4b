import { ConfigMap, Namespace } from "@keelson/api-machinery/kinds";
import type { PluginDefinition } from "@keelson/middleware-agent";
import type { ServerDefinition } from "@keelson/operator";
import { labels, pluginNamespace } from "./api/names.ts";
import { pluginConfigMapName } from "./plugin/read-plugin.ts";

const fieldManager = "middleware-plugins";

/** Installs Keelson's built-in plugins in the cluster. */
export function createPluginServer(plugins: readonly PluginDefinition[]): ServerDefinition {
  return {
    name: "plugins",
    needsLeaderElection: true,
    async start({ client }) {
      await client.apply(Namespace, { metadata: { name: pluginNamespace } }, { fieldManager });
      for (const { name, version, data } of plugins) {
        const metadata = {
          name: pluginConfigMapName(name, version),
          namespace: pluginNamespace,
          labels: { [labels.plugin]: name, [labels.pluginVersion]: version },
        };
        await client.apply(ConfigMap, { metadata, data: { ...data } }, { fieldManager });
      }
      const names = plugins.map(({ name, version }) => `${name} ${version}`);
      return { description: `plugins: ${names.join(", ")}`, stop: () => Promise.resolve() };
    },
  };
}
