import { defineResource, hasFinalizer, isBeingDeleted, jsonEquals, type ObjectType } from "@keelson/api-machinery";
import { addFinalizer, type ControllerDefinition, defineController, removeFinalizer } from "@keelson/controller";
import { Type } from "typebox";

/** A record in an external DNS service. */
export const DnsRecord = defineResource({
  group: "example.com",
  version: "v1",
  kind: "DnsRecord",
  plural: "dnsrecords",
  scope: "Namespaced",
  description: "A record in an external DNS service.",
  spec: Type.Object({
    host: Type.String({ minLength: 1, maxLength: 253 }),
    address: Type.String({ format: "ipv4" }),
  }),
  status: Type.Object({ address: Type.Optional(Type.String()) }),
});
export type DnsRecord = ObjectType<typeof DnsRecord>;

/** The external DNS service. Both calls are idempotent, so a reconcile that crashes can repeat them. */
export interface DnsProvider {
  set(host: string, address: string, signal: AbortSignal): Promise<void>;
  /** Succeeds if the record does not exist. */
  remove(host: string, signal: AbortSignal): Promise<void>;
}

const finalizer = "example.com/dns-record";

/**
 * Creates records in an external service and removes them with their object. The finalizer is added before the first call of the
 * service and removed after the last one, so no record is left behind.
 */
export function createDnsRecordController(provider: DnsProvider): ControllerDefinition {
  return defineController({
    name: "dns-record",
    for: DnsRecord,
    async reconcile(request, { cache, client, events, signal }) {
      const record = cache.get(DnsRecord, request);
      if (record === undefined) return;
      const { host, address } = record.spec;
      if (isBeingDeleted(record)) {
        if (!hasFinalizer(record, finalizer)) return;
        await provider.remove(host, signal);
        await removeFinalizer(client, DnsRecord, record, finalizer);
        return;
      }
      await addFinalizer(client, DnsRecord, record, finalizer);
      await provider.set(host, address, signal);
      if (jsonEquals(record.status ?? {}, { address })) return;
      await client.applyStatus(DnsRecord, { metadata: request, status: { address } }, { signal });
      events.event(record, { type: "Normal", reason: "RecordSet", note: `${host} resolves to ${address}` });
    },
  });
}
