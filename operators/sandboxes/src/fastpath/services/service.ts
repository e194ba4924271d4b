import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { isNotFound } from "@keelson/api-machinery";
import type { Patch } from "@keelson/client";
import {
  ConsistencyMode,
  DeleteResponseSchema,
  type FastPathService,
  ListResponseSchema,
  UpdateResponseSchema,
} from "@keelson/sandbox/protocol";
import { Sandbox } from "../../api/sandbox.ts";
import { connectError, messageOf } from "../connect-error.ts";
import type { FastPathMetrics } from "../fastpath-metrics.ts";
import { parseUpdate } from "../creation/read-request.ts";
import { SandboxCreator, type SandboxCreatorOptions } from "../creation/sandbox-creator.ts";
import { sandboxInfo } from "../sandbox-info.ts";
import type { SandboxKey } from "../wait-for-sandbox.ts";

/** Dependencies of the service. */
export interface FastPathOptions extends SandboxCreatorOptions {
  readonly defaultMode: "fast" | "strong";
  readonly metrics: FastPathMetrics;
}

/** The service `fastpath.v1.FastPathService`. */
export function createFastPathService(options: FastPathOptions): ServiceImpl<typeof FastPathService> {
  const { client, cache, fast, clock, metrics } = options;
  const creator = new SandboxCreator(options);
  return {
    async createSandbox(request, { signal, timeoutMs }) {
      const began = clock.monotonic();
      const isFast = request.consistencyMode === ConsistencyMode.FAST && options.defaultMode === "fast";
      let succeeded = false;
      try {
        const created = await creator.create(request, isFast, { signal, timeoutMs: timeoutMs() });
        succeeded = true;
        return created;
      } finally {
        metrics.created(isFast ? "fast" : "strong", succeeded, (clock.monotonic() - began) / 1000);
      }
    },

    async deleteSandbox(request) {
      const key = keyOf(request);
      // The intent is durable: the fast path stops the sandbox and deletes its object, if it was written.
      if (await fast.delete(key.namespace, key.name)) return create(DeleteResponseSchema, { success: true });
      try {
        await client.delete(Sandbox, key);
      } catch (error) {
        if (!isNotFound(error)) throw connectError(error);
        throw new ConnectError(`sandbox ${key.namespace}/${key.name} not found`, Code.NotFound);
      }
      return create(DeleteResponseSchema, { success: true });
    },

    async updateSandbox(request) {
      try {
        const body = parseUpdate(request);
        const sandbox = await client.patch(Sandbox, keyOf(request), { type: "merge", body } satisfies Patch);
        return create(UpdateResponseSchema, { success: true, message: "updated", sandbox: sandboxInfo(sandbox) });
      } catch (error) {
        // As in the original, errors are part of the answer and the call succeeds.
        return create(UpdateResponseSchema, { success: false, message: messageOf(error) });
      }
    },

    listSandboxes({ namespace }) {
      const items = cache.list(Sandbox, { namespace: namespace || "default" }).map(sandboxInfo);
      return create(ListResponseSchema, { items });
    },

    async getSandbox(request) {
      const key = keyOf(request);
      try {
        return sandboxInfo(cache.get(Sandbox, key) ?? (await client.get(Sandbox, key)));
      } catch (error) {
        throw connectError(error);
      }
    },
  };
}

const keyOf = ({ sandboxName, namespace }: { readonly sandboxName: string; readonly namespace: string }): SandboxKey => ({
  namespace: namespace || "default",
  name: sandboxName,
});
