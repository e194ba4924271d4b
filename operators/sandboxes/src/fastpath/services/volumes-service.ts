import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import { isQuantity } from "@keelson/api-machinery/quantity";
import type { Clock } from "@keelson/api-machinery/time";
import { dns1123SubdomainFaults } from "@keelson/api-machinery/validation";
import type { Client } from "@keelson/client";
import type { Cache, OnChange } from "@keelson/controller";
import {
  type CreateVolumeRequest,
  DeleteVolumeResponseSchema,
  ListVolumesResponseSchema,
  type ResizeVolumeRequest,
  type SandboxVolumes,
  type VolumeInfo,
  VolumeInfoSchema,
} from "@keelson/sandbox/protocol";
import { cleanupFinalizer } from "../../api/names.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { SandboxPool } from "../../api/sandbox-pool.ts";
import { SandboxVolume } from "../../api/sandbox-volume.ts";
import { volumeUsers } from "../../controllers/sandbox-volume.ts";
import { hasSize, sizeProblem } from "../../controllers/sandbox-volume-decision.ts";
import { connectError } from "../connect-error.ts";
import { waitForObject } from "../wait-for-object.ts";

/** Dependencies of the service. */
export interface VolumesOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
}

interface VolumeKey {
  readonly namespace: string;
  readonly name: string;
}

/** How long a call waits for the agent, unless the caller sets a shorter deadline. */
const waitMs = 60_000;

const keyOf = ({ volumeName, namespace }: { readonly volumeName: string; readonly namespace: string }): VolumeKey => ({
  namespace: namespace || "default",
  name: volumeName,
});

/** The service `keelson.sandboxes.v1.SandboxVolumes`. */
export function createVolumesService(options: VolumesOptions): ServiceImpl<typeof SandboxVolumes> {
  const { client, cache, onChange, clock } = options;
  const infoOf = (volume: DeepReadonly<SandboxVolume>): VolumeInfo => volumeInfo(volume, cache);
  const wait = (
    key: VolumeKey,
    isDone: (volume: DeepReadonly<SandboxVolume> | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<DeepReadonly<SandboxVolume> | undefined> =>
    waitForObject(SandboxVolume, key, isDone, () => waitError(key, cache), {
      cache,
      onChange,
      clock,
      timeoutMs: waitMs,
      signal,
    });
  return {
    async createVolume(request, { signal }) {
      const key = keyOf(request);
      const spec = specOf(request, key);
      await requirePool(key.namespace, spec.poolRef, options);
      try {
        await client.create(SandboxVolume, { metadata: { ...key, finalizers: [cleanupFinalizer] }, spec });
      } catch (error) {
        throw connectError(error);
      }
      const settled = ["Ready", "Failed", "Lost", "Deleting"];
      const created = await wait(key, (volume) => settled.includes(volume?.status?.phase ?? ""), signal);
      if (created?.status?.phase === "Ready") return infoOf(created);
      const message = created?.status?.message ?? "it was deleted";
      throw new ConnectError(`SandboxVolume ${key.namespace}/${key.name}: ${message}`, Code.ResourceExhausted);
    },

    listVolumes({ namespace }) {
      const volumes = cache.list(SandboxVolume, { namespace: namespace || "default" });
      return create(ListVolumesResponseSchema, { items: volumes.map(infoOf) });
    },

    async resizeVolume(request, { signal }) {
      return infoOf(await resize(request, client, (isDone) => wait(keyOf(request), isDone, signal)));
    },

    async deleteVolume(request, { signal }) {
      const key = keyOf(request);
      const users = usersOf(key, cache);
      if (users.length > 0)
        throw new ConnectError(
          `SandboxVolume ${key.namespace}/${key.name} is in use by ${users.join(", ")}; delete them first`,
          Code.FailedPrecondition,
        );
      try {
        await client.delete(SandboxVolume, key);
      } catch (error) {
        if (!isNotFound(error)) throw connectError(error);
        throw new ConnectError(`SandboxVolume ${key.namespace}/${key.name} not found`, Code.NotFound);
      }
      await wait(key, (volume) => volume === undefined, signal);
      return create(DeleteVolumeResponseSchema);
    },
  };
}

/** **Errors**: InvalidArgument with the field's name. */
function specOf({ poolRef, size }: CreateVolumeRequest, { name }: VolumeKey): SandboxVolume["spec"] {
  const [problem] = dns1123SubdomainFaults(name);
  if (problem !== undefined) throw new ConnectError(`volume_name: ${problem}`, Code.InvalidArgument);
  if (poolRef === "") throw new ConnectError("pool_ref: is required", Code.InvalidArgument);
  requireSize(size);
  return { poolRef, size };
}

/** **Errors**: InvalidArgument with the field's name. */
function requireSize(size: string): void {
  const problem = isQuantity(size)
    ? sizeProblem(size)
    : `Invalid value: ${JSON.stringify(size)}: must be a quantity, such as 1Gi`;
  if (problem !== undefined) throw new ConnectError(`size: ${problem}`, Code.InvalidArgument);
}

type WaitForVolume = (
  isDone: (volume: DeepReadonly<SandboxVolume> | undefined) => boolean,
) => Promise<DeepReadonly<SandboxVolume> | undefined>;

/** Changes the size of a volume and waits until it has the size, or its agent cannot grow it now. **Errors**: `ConnectError`. */
async function resize(request: ResizeVolumeRequest, client: Client, wait: WaitForVolume): Promise<DeepReadonly<SandboxVolume>> {
  const key = keyOf(request);
  const { size } = request;
  requireSize(size);
  const { generation = 0 } = await patchSize(key, size, client);
  const resized = await wait(
    (volume) =>
      volume === undefined ||
      ((volume.metadata.generation ?? 0) >= generation && hasSize(volume, size)) ||
      ((volume.status?.observedGeneration ?? 0) >= generation && hasResizeProblem(volume)),
  );
  if (resized !== undefined && hasSize(resized, size)) return resized;
  const { phase = "Deleting", message = "it was deleted" } = resized?.status ?? {};
  throw new ConnectError(
    `SandboxVolume ${key.namespace}/${key.name}: ${message}`,
    phase === "Ready" ? Code.ResourceExhausted : Code.FailedPrecondition,
  );
}

/** Whether a volume does not grow for now. One that is being created can still grow. */
const hasResizeProblem = ({ status: { phase = "Pending", message = "" } = {} }: DeepReadonly<SandboxVolume>): boolean =>
  phase !== "Pending" && message !== "";

/** Changes the size of a volume. The API rejects a smaller one. */
async function patchSize(key: VolumeKey, size: string, client: Client): Promise<DeepReadonly<SandboxVolume>["metadata"]> {
  try {
    return (await client.patch(SandboxVolume, key, { type: "merge", body: { spec: { size } } })).metadata;
  } catch (error) {
    if (!isNotFound(error)) throw connectError(error);
    throw new ConnectError(`SandboxVolume ${key.namespace}/${key.name} not found`, Code.NotFound);
  }
}

/** **Errors**: FailedPrecondition if the pool does not exist; the volume would wait forever. */
async function requirePool(namespace: string, name: string, { cache, client }: VolumesOptions): Promise<void> {
  try {
    // The cache may not have it yet.
    if (cache.get(SandboxPool, { namespace, name }) === undefined) await client.get(SandboxPool, { namespace, name });
  } catch (error) {
    if (!isNotFound(error)) throw connectError(error);
    throw new ConnectError(`pool_ref: SandboxPool ${namespace}/${name} not found`, Code.FailedPrecondition);
  }
}

/** The error of a call whose volume has not reached its state in time. It is left as it is. */
function waitError(key: VolumeKey, cache: Cache): ConnectError {
  const { phase = "Pending", message = "" } = cache.get(SandboxVolume, key)?.status ?? {};
  const detail = message === "" ? "" : `: ${message}`;
  return new ConnectError(`SandboxVolume ${key.namespace}/${key.name} is ${phase}${detail}`, Code.DeadlineExceeded);
}

const usersOf = ({ namespace, name }: VolumeKey, cache: Cache): readonly string[] =>
  volumeUsers(cache.list(Sandbox, { namespace, index: ["volume", name] }));

function volumeInfo({ metadata, spec, status = {} }: DeepReadonly<SandboxVolume>, cache: Cache): VolumeInfo {
  const { name = "", namespace = "", creationTimestamp } = metadata;
  return create(VolumeInfoSchema, {
    volumeName: name,
    poolRef: spec.poolRef,
    size: String(spec.size),
    currentSize: status.size ?? "",
    phase: status.phase ?? "Pending",
    message: status.message ?? "",
    agentPod: status.assignedPod ?? "",
    createdAt: BigInt(creationTimestamp === undefined ? 0 : Math.floor(Date.parse(creationTimestamp) / 1000)),
    usedBy: [...usersOf({ namespace, name }, cache)],
  });
}
