import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { defineWebhook, type KindWebhooks, type WebhookContext } from "@keelson/controller/webhooks";
import { pluginProblem } from "./check-plugin.ts";
import { documentKey } from "./read-plugin.ts";

/** Checks that run or wait. They run one at a time. Further plugins are admitted with a warning. */
const maxPending = 8;

/**
 * Rejects broken plugins when their ConfigMaps are created or changed. The API server sends only ConfigMaps that look like plugins by name
 * and key. If the operator does not respond they are admitted, so that it never blocks ConfigMaps, and Apps report the problem.
 */
export function createPluginWebhook(agentCommand: readonly string[]): KindWebhooks {
  let last: Promise<unknown> = Promise.resolve();
  let pending = 0;
  const validate = async (
    configMap: DeepReadonly<ConfigMapObject>,
    context: Pick<WebhookContext, "warn">,
  ): Promise<readonly StatusCause[]> => {
    if (pending >= maxPending) {
      context.warn("the plugin was not checked: too many plugins are being checked; Apps that use it report problems");
      return [];
    }
    pending += 1;
    const check = last.then(() => pluginProblem(configMap, agentCommand));
    last = check.then(
      () => undefined,
      () => undefined,
    );
    try {
      const problem = await check;
      return problem === undefined ? [] : [invalidCause("data", documentKey, problem)];
    } finally {
      pending -= 1;
    }
  };
  return defineWebhook<ConfigMapObject>({
    for: ConfigMap,
    name: "plugins.middleware.io",
    failurePolicy: "Ignore",
    timeoutSeconds: 5,
    matchConditions: [
      {
        name: "is-plugin",
        expression: `has(object.metadata.name) && object.metadata.name.matches('-v[0-9]') && has(object.data) && '${documentKey}' in object.data`,
      },
    ],
    validate: {
      create: validate,
      // An update that changes neither the document nor a template, such as one of a label, must always be possible.
      update: (configMap, old, context) => (jsonEquals(configMap.data, old.data) ? [] : validate(configMap, context)),
    },
  });
}
