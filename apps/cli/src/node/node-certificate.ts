import { randomBytes } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type DeepReadonly, ignoreNotFound, isStatusError, parseJsonObject } from "@keelson/api-machinery";
import { createCertificateRequest, type KeyPair } from "@keelson/api-machinery/certificates";
import { type Clock, formatTime, sleep } from "@keelson/api-machinery/time";
import { CertificateSigningRequest, type CertificateSigningRequestObject } from "@keelson/cluster";
import type { Client } from "@keelson/client";
import { writeFileAtomic } from "@keelson/execution/files";
import { NodeError } from "./node-error.ts";

/** Options of {@link requestNodeCertificate}. */
export interface NodeCertificateOptions {
  /** May create CertificateSigningRequests. If it may also approve them, no manual approval is needed. */
  readonly client: Client;
  readonly nodeName: string;
  /** Directory of the key and the pending request. */
  readonly folder: string;
  readonly clock: Clock;
  /** Receives lines for the user. */
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

type Csr = DeepReadonly<CertificateSigningRequestObject>;

/** A request that waits for its certificate. It survives restarts, so that an approval is never lost. */
interface PendingRequest {
  readonly name: string;
  readonly request: string;
  readonly key: string;
}

/** Delay before a watch that ended is opened again. */
const rewatchMs = 1_000;

const signerName = "kubernetes.io/kube-apiserver-client-kubelet";

/**
 * Obtains a client certificate of the node `system:node:NAME` from the cluster, as a kubelet's TLS bootstrap does. The key never leaves
 * this machine. Approves the request if the client is allowed to; otherwise waits for approval.
 *
 * **Errors**: {@link NodeError} if the request is denied or fails; those of the API; the signal's reason.
 */
export async function requestNodeCertificate(options: NodeCertificateOptions): Promise<KeyPair> {
  const { client, clock, folder, print, signal } = options;
  const file = join(folder, "node-request.json");
  const { pending, csr } = (await resumedRequest(options, file)) ?? (await newRequest(options, file));
  if (verdictOf(csr) === "pending" && !(await approve(csr, options))) {
    print(`waiting for the approval of this node's certificate: kubectl certificate approve ${pending.name}`);
  }
  for (; ; await sleep(clock, rewatchMs, signal)) {
    // A watch does not show that the request was deleted before it began.
    if ((await ignoreNotFound(client.get(CertificateSigningRequest, { name: pending.name }, { signal }))) === undefined) {
      await rm(file, { force: true });
      throw new NodeError("CertificateRefused", `the certificate request ${pending.name} was deleted`);
    }
    const watch = await client.watch(CertificateSigningRequest, { fieldSelector: `metadata.name=${pending.name}`, signal });
    try {
      for await (const { type, object } of watch) {
        signal.throwIfAborted();
        const certificate = object.status?.certificate;
        const verdict = type === "DELETED" ? "deleted" : verdictOf(object);
        if (verdict !== "pending" && verdict !== "approved") {
          await rm(file, { force: true });
          const why = object.status?.conditions?.find((each) => each.type.toLowerCase() === verdict)?.message;
          throw new NodeError(
            "CertificateRefused",
            `the certificate request ${pending.name} was ${verdict}${why ? `: ${why}` : ""}`,
          );
        }
        if (certificate === undefined || certificate === "") continue;
        await rm(file, { force: true });
        return { certificate: Buffer.from(certificate, "base64").toString("utf8"), key: pending.key };
      }
    } finally {
      watch.close();
    }
    signal.throwIfAborted();
  }
}

function verdictOf({ status }: Csr): "pending" | "approved" | "denied" | "failed" {
  const has = (type: string): boolean =>
    status?.conditions?.some((each) => each.type === type && each.status !== "False") ?? false;
  return has("Denied") ? "denied" : has("Failed") ? "failed" : has("Approved") ? "approved" : "pending";
}

interface RequestedNode {
  readonly pending: PendingRequest;
  readonly csr: Csr;
}

async function resumedRequest({ client, signal }: NodeCertificateOptions, file: string): Promise<RequestedNode | undefined> {
  const stored = parseJsonObject(await readFile(file, "utf8").catch(() => ""));
  const { name, request, key } = stored ?? {};
  if (typeof name !== "string" || typeof request !== "string" || typeof key !== "string") return undefined;
  const csr = await ignoreNotFound(client.get(CertificateSigningRequest, { name }, { signal }));
  // Another cluster may have a request of this name.
  return csr?.spec.request === request ? { pending: { name, request, key }, csr } : undefined;
}

async function newRequest({ client, nodeName, signal }: NodeCertificateOptions, file: string): Promise<RequestedNode> {
  const { request, key } = await createCertificateRequest({
    commonName: `system:node:${nodeName}`,
    organizations: ["system:nodes"],
  });
  const pending = {
    name: `node-${nodeName}-${randomBytes(4).toString("hex")}`,
    request: Buffer.from(request).toString("base64"),
    key,
  };
  await writeFileAtomic(file, JSON.stringify(pending), { durable: true });
  const spec = { request: pending.request, signerName, usages: ["digital signature", "client auth"] };
  const csr = await client.create(CertificateSigningRequest, { metadata: { name: pending.name }, spec }, { signal });
  return { pending, csr };
}

/** Approves the request. Returns false if the client may not. */
async function approve(csr: Csr, { client, clock, signal }: NodeCertificateOptions): Promise<boolean> {
  const condition = {
    ...{ type: "Approved", status: "True", reason: "KeelsonNode", message: "approved by the user who joined this node" },
    lastUpdateTime: formatTime(clock.now()),
  };
  const approved = { ...csr, status: { ...csr.status, conditions: [...(csr.status?.conditions ?? []), condition] } };
  try {
    await client.update(CertificateSigningRequest, approved, { subresource: "approval", signal });
    return true;
  } catch (error) {
    // A conflict means that someone else has decided in the meantime.
    if (isStatusError(error, "Conflict")) return true;
    if (isStatusError(error, "Forbidden")) return false;
    throw error;
  }
}
