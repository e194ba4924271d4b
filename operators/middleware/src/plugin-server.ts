import { ConfigMap, Namespace } from "@keelson/api-machinery/kinds";
import type { ServerDefinition } from "@keelson/operator";
import { labels, pluginNamespace } from "./api/names.ts";
import { redisPlugin } from "./plugin/redis-plugin.ts";
import { pluginConfigMapName } from "./plugin/read-plugin.ts";

const fieldManager = "middleware-plugins";

/** Installs Keelson's built-in plugins in the cluster. */
export const pluginServer: ServerDefinition = {
  name: "plugins",
  needsLeaderElection: true,
  async start({ client }) {
    await client.apply(Namespace, { metadata: { name: pluginNamespace } }, { fieldManager });
    const { name, version, data } = redisPlugin;
    await client.apply(
      ConfigMap,
      {
        metadata: {
          name: pluginConfigMapName(name, version),
          namespace: pluginNamespace,
          labels: { [labels.plugin]: name, [labels.pluginVersion]: version },
        },
        data: { ...data },
      },
      { fieldManager },
    );
    return { description: `plugins: ${name} ${version}`, stop: () => Promise.resolve() };
  },
};
