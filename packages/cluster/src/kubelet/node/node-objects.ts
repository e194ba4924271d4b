import { type DeepReadonly, ignoreNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import {
  ConfigMap,
  type ConfigMapObject,
  PersistentVolumeClaim,
  RuntimeClass,
  Secret,
  type SecretObject,
  ServiceAccount,
  type ServiceObject,
} from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { PodView } from "../pod/pod-view.ts";
import { directoryProvisioner, provisionedByAnnotation } from "../../persistent-volume/claim-decision.ts";
import { type ClaimFolder, VolumeError } from "../volumes/volumes.ts";
import { ClusterError } from "../../cluster-error.ts";

/** core/v1 PersistentVolume, reduced to the fields that a node reads. */
export interface PersistentVolumeObject extends KubernetesObject {
  spec?: {
    hostPath?: { path: string; type?: string };
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

/** Requests a service account token bound to a Pod (TokenRequest). */
export type IssueToken = (request: {
  readonly namespace: string;
  readonly account: string;
  /** Empty for the API server. */
  readonly audiences: readonly string[];
  readonly expirationSeconds: number;
  readonly pod: { readonly name: string; readonly uid: string };
}) => Promise<string>;

/** authentication.k8s.io/v1 TokenRequest, reduced to the fields that a node uses. */
interface TokenRequestObject extends KubernetesObject {
  spec: {
    readonly audiences: readonly string[];
    readonly expirationSeconds: number;
    readonly boundObjectRef: { readonly apiVersion: "v1"; readonly kind: "Pod"; readonly name: string; readonly uid: string };
  };
  status?: { readonly token?: string };
}

const tokenRequests: ResourceType<TokenRequestObject> = {
  group: "authentication.k8s.io",
  version: "v1",
  kind: "TokenRequest",
  plural: "tokenrequests",
  scope: "Namespaced",
};

/** Requests tokens from the API's `serviceaccounts/token` subresource. */
export function issueTokensBy(client: Client): IssueToken {
  return async ({ namespace, account, audiences, expirationSeconds, pod }) => {
    const boundObjectRef = { apiVersion: "v1", kind: "Pod", ...pod } as const;
    const { status } = await client.create(
      tokenRequests,
      { metadata: { namespace, name: account }, spec: { audiences, expirationSeconds, boundObjectRef } },
      { subresource: { of: ServiceAccount, name: "token" } },
    );
    if (status?.token === undefined) throw new ClusterError("InvalidResponse", "TokenRequest response has no status.token");
    return status.token;
  };
}

/** Objects that Pods reference: ConfigMaps, Secrets, claims, tokens, Services. Always read from the API server, never cached. */
export interface NodeObjects {
  configMap(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  secret(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  claimFolder(namespace: string, claim: string): Promise<ClaimFolder>;
  token(pod: PodView, options: { readonly audience?: string; readonly expirationSeconds: number }): Promise<string>;
  /** Whether a Pod automounts its service account token: by default, unless it or its account opts out. */
  mountsToken(pod: PodView): Promise<boolean>;
  /** The handler of a RuntimeClass; `undefined` if it does not exist. */
  runtimeHandler(name: string): Promise<string | undefined>;
  /** The Services whose environment variables a Pod of this namespace gets. */
  services(namespace: string): readonly DeepReadonly<ServiceObject>[];
}

/** Creates {@link NodeObjects} on a client. */
export function createNodeObjects(
  client: Client,
  services: NodeObjects["services"],
  now: () => number,
  issueToken?: IssueToken,
): NodeObjects {
  return new ClientObjects(client, services, now, issueToken);
}

class ClientObjects implements NodeObjects {
  readonly services: NodeObjects["services"];
  readonly #client: Client;
  readonly #now: () => number;
  readonly #issueToken: IssueToken | undefined;
  readonly #tokens = new Map<string, { readonly token: string; readonly renewAt: number }>();

  constructor(client: Client, services: NodeObjects["services"], now: () => number, issueToken: IssueToken | undefined) {
    this.#client = client;
    this.services = services;
    this.#now = now;
    this.#issueToken = issueToken;
  }

  async runtimeHandler(name: string): Promise<string | undefined> {
    return (await this.#get(RuntimeClass, { name }))?.handler;
  }

  async mountsToken(pod: PodView): Promise<boolean> {
    if (this.#issueToken === undefined) return false;
    if (pod.spec.automountServiceAccountToken !== undefined) return pod.spec.automountServiceAccountToken;
    const account = await this.#get(ServiceAccount, {
      namespace: pod.metadata.namespace ?? "",
      name: pod.spec.serviceAccountName ?? "default",
    });
    return account?.automountServiceAccountToken !== false;
  }

  async configMap(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined> {
    const found: DeepReadonly<ConfigMapObject> | undefined = await this.#get(ConfigMap, { namespace, name });
    if (found === undefined) return undefined;
    return new Map<string, Uint8Array>([
      ...Object.entries(found.data ?? {}).map(([key, value]) => [key, Buffer.from(value)] as const),
      ...Object.entries(found.binaryData ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")] as const),
    ]);
  }

  async secret(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined> {
    const found: DeepReadonly<SecretObject> | undefined = await this.#get(Secret, { namespace, name });
    if (found === undefined) return undefined;
    return new Map(Object.entries(found.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64")]));
  }

  async claimFolder(namespace: string, name: string): Promise<ClaimFolder> {
    const claim = await this.#get(PersistentVolumeClaim, { namespace, name });
    if (claim === undefined) throw new VolumeError("NotFound", `persistentvolumeclaim ${JSON.stringify(name)} not found`);
    const volumeName = claim.spec?.volumeName ?? "";
    if (claim.status?.phase !== "Bound" || volumeName === "") {
      throw new VolumeError("NotBound", `persistentvolumeclaim ${JSON.stringify(name)} is not bound`);
    }
    const volume = await this.#get(persistentVolumes, { name: volumeName });
    const { hostPath, local } = volume?.spec ?? {};
    const folder = hostPath ?? (local && { path: local.path, mustExist: true });
    if (folder === undefined) {
      const subject = `persistentvolume ${JSON.stringify(volumeName)}`;
      throw new VolumeError("Unsupported", `${subject} has neither spec.hostPath nor spec.local`);
    }
    return { ...folder, isProvisioned: volume?.metadata.annotations?.[provisionedByAnnotation] === directoryProvisioner };
  }

  async token(
    pod: PodView,
    { audience, expirationSeconds }: { readonly audience?: string; readonly expirationSeconds: number },
  ): Promise<string> {
    const { namespace = "", name = "", uid = "" } = pod.metadata;
    const account = pod.spec.serviceAccountName ?? "default";
    const key = JSON.stringify([uid, account, audience, expirationSeconds]);
    const known = this.#tokens.get(key);
    if (known !== undefined && this.#now() < known.renewAt) return known.token;
    if (this.#issueToken === undefined) {
      throw new VolumeError("Unsupported", "this node cannot request service account tokens");
    }
    const token = await this.#issueToken({
      namespace,
      account,
      audiences: audience === undefined ? [] : [audience],
      expirationSeconds,
      pod: { name, uid },
    });
    // Renewed after four fifths of its lifetime, as in the kubelet.
    this.#tokens.set(key, { token, renewAt: this.#now() + expirationSeconds * 800 });
    if (this.#tokens.size > 10_000) this.#tokens.clear();
    return token;
  }

  async #get<T extends KubernetesObject>(
    type: ResourceType<T>,
    key: { readonly namespace?: string; readonly name: string },
  ): Promise<DeepReadonly<T> | undefined> {
    return ignoreNotFound(this.#client.get(type, key));
  }
}
