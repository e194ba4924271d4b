import { isJsonObject, type JsonObject } from "@keelson/api-machinery";

/** The rules of a direction that a HorizontalPodAutoscaler with `behavior` does not set. Same as kube-apiserver. */
const scaleUp = {
  stabilizationWindowSeconds: 0,
  selectPolicy: "Max",
  policies: [
    { type: "Pods", value: 4, periodSeconds: 15 },
    { type: "Percent", value: 100, periodSeconds: 15 },
  ],
};
const scaleDown = { selectPolicy: "Max", policies: [{ type: "Percent", value: 100, periodSeconds: 15 }] };

/** Completes `spec.behavior` in place. */
export function defaultBehavior(behavior: JsonObject): void {
  behavior["scaleUp"] = completed(behavior["scaleUp"], scaleUp);
  behavior["scaleDown"] = completed(behavior["scaleDown"], scaleDown);
}

function completed(rules: unknown, defaults: JsonObject): JsonObject {
  return { ...structuredClone(defaults), ...(isJsonObject(rules) ? rules : {}) };
}
