import type { DeepReadonly } from "@keelson/api-machinery";
import type { Volume } from "@keelson/api-machinery/kinds";
import type { ContainerView, PodView } from "../pod/pod-view.ts";

/** Where a container finds its service account. */
export const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";

/** No volume of a Pod can have this name: it is no DNS label. */
export const tokenVolumeName = "keelson.api-access";

/** A Pod with the volume of its service account's token, for containers that mount nothing there themselves. */
export function withTokenVolume(pod: PodView): PodView {
  const volume: DeepReadonly<Volume> = {
    name: tokenVolumeName,
    projected: {
      sources: [
        { serviceAccountToken: { path: "token", expirationSeconds: 3607 } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
      ],
    },
  };
  return { ...pod, spec: { ...pod.spec, volumes: [...(pod.spec.volumes ?? []), volume] } };
}

/** Whether a container has something of its own where the token would be. */
export function hasOwnToken(container: ContainerView): boolean {
  return container.volumeMounts?.some(({ mountPath }) => mountPath.replace(/\/+$/, "") === tokenPath) === true;
}
