import {
  ConfigMap,
  type ConfigMapObject,
  type DeepReadonly,
  isNotFound,
  type KubernetesObject,
  PersistentVolumeClaim,
  type ResourceType,
  Secret,
  type SecretObject,
  type ServiceObject,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { PodView } from "./pod-view.ts";
import { VolumeError } from "./volumes.ts";

/** core/v1 PersistentVolume, as far as a node needs it. */
export interface PersistentVolumeObject extends KubernetesObject {
  spec?: {
    hostPath?: { path: string };
    local?: { path: string };
    claimRef?: { namespace?: string; name?: string; uid?: string };
  };
}

const persistentVolumes: ResourceType<PersistentVolumeObject> = {
  group: "",
  version: "v1",
  kind: "PersistentVolume",
  plural: "persistentvolumes",
  scope: "Cluster",
};

interface TokenRequestObject extends KubernetesObject {
  spec?: unknown;
  status?: { token: string; expirationTimestamp: string };
}

/** Objects that Pods name: ConfigMaps, Secrets, claims, tokens, Services. Read when they are needed, never from an old copy. */
export interface NodeObjects {
  configMap(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  secret(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  claimFolder(namespace: string, claim: string): Promise<string>;
  token(pod: PodView, options: { readonly audience?: string; readonly expirationSeconds: number }): Promise<string>;
  /** Services whose variables a Pod of this namespace gets. */
  services(namespace: string): readonly DeepReadonly<ServiceObject>[];
}

/** Makes {@link NodeObjects} on a client. */
export function createNodeObjects(
  client: Client,
  services: (namespace: string) => readonly DeepReadonly<ServiceObject>[],
  now: () => number,
): NodeObjects {
  const tokens = new Map<string, { readonly token: string; readonly renewAt: number }>();
  const get = async <T extends KubernetesObject>(
    type: ResourceType<T>,
    key: { readonly namespace?: string; readonly name: string },
  ): Promise<DeepReadonly<T> | undefined> => {
    try {
      return await client.get(type, key);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };
  return {
    services,
    async configMap(namespace, name) {
      const found: DeepReadonly<ConfigMapObject> | undefined = await get(ConfigMap, { namespace, name });
      if (found === undefined) return undefined;
      return new Map<string, Uint8Array>([
        ...Object.entries(found.data ?? {}).map(([key, value]) => [key, Buffer.from(value)] as const),
        ...Object.entries(found.binaryData ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")] as const),
      ]);
    },
    async secret(namespace, name) {
      const found: DeepReadonly<SecretObject> | undefined = await get(Secret, { namespace, name });
      if (found === undefined) return undefined;
      return new Map(Object.entries(found.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")]));
    },
    async claimFolder(namespace, name) {
      const claim = await get(PersistentVolumeClaim, { namespace, name });
      if (claim === undefined) throw new VolumeError(`persistentvolumeclaim ${JSON.stringify(name)} not found`);
      const volumeName = claim.spec?.volumeName ?? "";
      if (claim.status?.phase !== "Bound" || volumeName === "") {
        throw new VolumeError(`persistentvolumeclaim ${JSON.stringify(name)} is not bound`);
      }
      const volume = await get(persistentVolumes, { name: volumeName });
      const folder = volume?.spec?.hostPath?.path ?? volume?.spec?.local?.path;
      if (folder === undefined) {
        throw new VolumeError(`persistentvolume ${JSON.stringify(volumeName)} has no folder on this node (hostPath or local)`);
      }
      return folder;
    },
    async token(pod, { audience, expirationSeconds }) {
      const { namespace = "", name = "", uid = "" } = pod.metadata;
      const account = pod.spec.serviceAccountName ?? "default";
      const key = JSON.stringify([uid, account, audience, expirationSeconds]);
      const known = tokens.get(key);
      if (known !== undefined && now() < known.renewAt) return known.token;
      const type: ResourceType<TokenRequestObject> = {
        group: "",
        version: "v1",
        kind: "TokenRequest",
        plural: `serviceaccounts/${encodeURIComponent(account)}/token`,
        scope: "Namespaced",
      };
      const issued = await client.create(type, {
        apiVersion: "authentication.k8s.io/v1",
        metadata: { namespace },
        spec: {
          audiences: audience === undefined ? [] : [audience],
          expirationSeconds,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
        },
      });
      const token = issued.status?.token ?? "";
      // Renewed at four fifths of its life, as the kubelet does.
      tokens.set(key, { token, renewAt: now() + expirationSeconds * 800 });
      if (tokens.size > 10_000) tokens.clear();
      return token;
    },
  };
}
