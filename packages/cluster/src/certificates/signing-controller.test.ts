import { createCertificateAuthority, createCertificateRequest } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { createSigningController } from "./signing-controller.ts";
import { CertificateSigningRequest, type CertificateSigningRequestObject } from "./signing-decision.ts";

const subject = { commonName: "jane", organizations: [], dnsNames: [], ipAddresses: [], emails: [], uris: [] };

test("approved requests are signed, and those that break the rules of their signer fail", async () => {
  await using environment = await startTestEnvironment({ clock: systemClock });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const { certificate } = await createCertificateAuthority("test", new Date(0), new Date(Date.now() + 86_400_000));
  const { request } = await createCertificateRequest({ commonName: "jane" });
  const signer = { subjectOf: async () => subject, sign: async () => certificate };
  const manager = createManager({
    name: "test",
    client,
    clock: systemClock,
    logger: silentLogger,
    controllers: [createSigningController(signer)],
  });
  await manager.start();
  try {
    const watch = await client.watch(CertificateSigningRequest, {});
    for (const [name, signerName] of [
      ["good", "kubernetes.io/kube-apiserver-client"],
      ["bad", "kubernetes.io/kube-apiserver-client-kubelet"],
    ] as const) {
      const created = await client.create(CertificateSigningRequest, {
        metadata: { name },
        spec: { request: Buffer.from(request).toString("base64"), signerName, usages: ["client auth"] },
      });
      const conditions = [{ type: "Approved", status: "True", reason: "Test", message: "" }];
      await client.update(CertificateSigningRequest, { ...created, status: { conditions } }, { subresource: "approval" });
    }
    const answers = new Map<string, string>();
    for await (const { object } of watch) {
      const { metadata, status } = object as CertificateSigningRequestObject;
      const failed = status?.conditions?.find(({ type }) => type === "Failed");
      if (status?.certificate !== undefined) answers.set(metadata.name ?? "", "signed");
      if (failed !== undefined) answers.set(metadata.name ?? "", failed.message ?? "");
      if (answers.size === 2) break;
    }
    expect(Object.fromEntries(answers)).toEqual({ good: "signed", bad: "subject organization is not system:nodes" });
  } finally {
    await manager.stop();
  }
});
