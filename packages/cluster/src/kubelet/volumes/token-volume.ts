import type { DeepReadonly } from "@keelson/api-machinery";
import type { Volume } from "@keelson/api-machinery/kinds";
import type { ContainerView, PodView } from "../pod/pod-view.ts";

/** The mount path of a container's service account token. */
export const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Cannot clash with a volume of a Pod: it is not a valid DNS label. */
export const tokenVolumeName = "keelson.api-access";

/** The begin of the names of volumes that admission adds. */
const admittedPrefix = "kube-api-access-";

/** Whether admission has added the service account token volume to a Pod. */
export function hasTokenVolume({ spec }: PodView): boolean {
  return spec.volumes?.some(({ name }) => name.startsWith(admittedPrefix)) === true;
}

/** Whether admission, rather than the Pod's author, has added a mount. */
export function isAddedMount({ name, mountPath }: NonNullable<ContainerView["volumeMounts"]>[number]): boolean {
  return name.startsWith(admittedPrefix) && mountPath === tokenPath;
}

/** Adds the service account token volume to a Pod that was stored before admission did. */
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

/** Whether a container mounts its own volume at {@link tokenPath}. */
export function hasOwnToken(container: ContainerView): boolean {
  return container.volumeMounts?.some(({ mountPath }) => mountPath.replace(/\/+$/, "") === tokenPath) === true;
}
