import { X509Certificate } from "node:crypto";
import { type DeepReadonly, ignoreNotFound, isAlreadyExists, isConflict } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { Secret, type SecretObject } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { CertificateStore, StoredCertificates } from "./certificate-manager.ts";
import type { WebhookCertificates } from "./certificate-plan.ts";

/** The keys of the Secret. It has the type `kubernetes.io/tls`, so that other programs can use it. */
const keys = {
  authority: ["ca.crt", "ca.key"],
  nextAuthority: ["next-ca.crt", "next-ca.key"],
  server: ["tls.crt", "tls.key"],
} as const;
const previousKey = "previous-ca.crt";

/** Keeps certificates in a Secret, which all replicas share. Writes carry the resourceVersion that was read. */
export function secretCertificateStore(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
): CertificateStore {
  return {
    async load() {
      const secret = await ignoreNotFound(client.get(Secret, key));
      return secret === undefined ? undefined : storedOf(secret);
    },
    async save(certificates, previous) {
      const secret = {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { ...key },
        type: "kubernetes.io/tls",
        data: dataOf(certificates),
      };
      try {
        if (previous === undefined) await client.create(Secret, secret);
        else await client.update(Secret, { ...secret, metadata: { ...key, resourceVersion: previous.version } });
        return true;
      } catch (error) {
        if (isConflict(error) || isAlreadyExists(error)) return false;
        throw error;
      }
    },
  };
}

function storedOf(secret: DeepReadonly<SecretObject>): StoredCertificates {
  const read = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
  const pairOf = ([certificate, key]: readonly [string, string]): KeyPair | undefined => {
    const pair = { certificate: read(certificate), key: read(key) };
    return pair.certificate === "" || pair.key === "" || !isCertificate(pair.certificate) ? undefined : pair;
  };
  const [authority, nextAuthority, server] = [pairOf(keys.authority), pairOf(keys.nextAuthority), pairOf(keys.server)];
  const previousAuthority = read(previousKey);
  return {
    version: secret.metadata.resourceVersion ?? "",
    certificates:
      authority === undefined || server === undefined
        ? undefined
        : {
            authority,
            server,
            ...(nextAuthority === undefined ? {} : { nextAuthority }),
            ...(isCertificate(previousAuthority) ? { previousAuthority } : {}),
          },
  };
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca !== undefined;
  } catch {
    return false;
  }
}

function dataOf({ authority, nextAuthority, previousAuthority, server }: WebhookCertificates): Record<string, string> {
  const pair = ([certificate, key]: readonly [string, string], value: KeyPair | undefined): Record<string, string> =>
    value === undefined ? {} : { [certificate]: encode(value.certificate), [key]: encode(value.key) };
  return {
    ...pair(keys.authority, authority),
    ...pair(keys.nextAuthority, nextAuthority),
    ...pair(keys.server, server),
    ...(previousAuthority === undefined ? {} : { [previousKey]: encode(previousAuthority) }),
  };
}

function encode(text: string): string {
  return Buffer.from(text).toString("base64");
}
