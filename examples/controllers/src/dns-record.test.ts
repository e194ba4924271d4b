import { isNotFound } from "@keelson/api-machinery";
import { expect, test } from "vitest";
import { createDnsRecordController, type DnsProvider, DnsRecord } from "./dns-record.ts";
import { runController } from "./testing/run-controller.ts";

const key = { namespace: "default", name: "web" };

test("creates a record before its status, and removes it with its object", async () => {
  const records = new Map<string, string>();
  const provider: DnsProvider = {
    set: async (host, address) => void records.set(host, address),
    remove: async (host) => void records.delete(host),
  };
  await using running = await runController(createDnsRecordController(provider), [DnsRecord]);
  const { client } = running;
  await client.create(DnsRecord, { metadata: key, spec: { host: "web.example.com", address: "192.0.2.1" } });
  await expect.poll(async () => (await client.get(DnsRecord, key)).status?.address).toBe("192.0.2.1");
  expect(records).toEqual(new Map([["web.example.com", "192.0.2.1"]]));

  await client.delete(DnsRecord, key);
  await expect.poll(() => client.get(DnsRecord, key).catch(isNotFound)).toBe(true);
  expect(records.size).toBe(0);
});

test("keeps the object until the service has removed the record", async () => {
  let failures = 0;
  const provider: DnsProvider = {
    set: async () => {},
    remove: async () => {
      if (failures++ < 2) throw new Error("service unavailable");
    },
  };
  await using running = await runController(createDnsRecordController(provider), [DnsRecord]);
  const { client } = running;
  await client.create(DnsRecord, { metadata: key, spec: { host: "web.example.com", address: "192.0.2.1" } });
  await expect.poll(async () => (await client.get(DnsRecord, key)).metadata.finalizers).toEqual(["example.com/dns-record"]);
  await client.delete(DnsRecord, key);
  await expect.poll(() => client.get(DnsRecord, key).catch(isNotFound)).toBe(true);
  expect(failures).toBe(3);
});
